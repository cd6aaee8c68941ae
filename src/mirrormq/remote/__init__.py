"""Queues whose master is on another node, for clients that publish to them, consume from them, query them."""
