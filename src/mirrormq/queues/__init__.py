"""Queues: ready messages, unacknowledged messages, and the turn order of consumers. Pure."""
