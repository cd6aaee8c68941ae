"""The broker: live vhosts, exchanges and queues, kept in step with the metadata. Pure."""
