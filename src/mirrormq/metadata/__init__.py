"""Cluster metadata: vhosts, users, exchanges, queues, bindings, policies, parameters."""
