"""Queues of other nodes."""
