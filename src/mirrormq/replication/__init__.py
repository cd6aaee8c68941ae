"""Mirrored queues: one history per queue, told to every member of its ring. Pure."""
