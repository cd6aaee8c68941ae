"""Broker: live vhosts, exchanges and queues, kept consistent with the metadata. Pure."""
