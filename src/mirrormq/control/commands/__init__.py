"""The verbs, one file per group. A verb takes the node and the request and returns plain values."""
