"""Queues whose master is on another node: clients of this node publish to them, consume from them and query
them."""
