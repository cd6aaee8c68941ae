"""Replication of mirrored queues: the operations of each queue, multicast to the members of its ring.
Pure."""
