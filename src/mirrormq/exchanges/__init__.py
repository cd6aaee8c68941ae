"""Routing: exchange types, bindings, and the traversal from exchange to queues."""
