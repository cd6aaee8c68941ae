"""Queues of other nodes: publishing to them, consuming from them, asking them, wherever the client is."""
