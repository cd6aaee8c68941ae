"""Control commands, one file per group. A command takes the node and the request and returns plain values."""
