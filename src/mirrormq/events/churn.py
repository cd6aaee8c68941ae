"""Churn counters: connections, channels and queues that were created and removed."""

from __future__ import annotations


class Churn:
    """Churn counters of one node since its start."""

    __slots__ = (
        "channel_closed", "channel_created", "connection_closed", "connection_created", "queue_created",
        "queue_declared", "queue_deleted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connection_created = 0
        self.connection_closed = 0
        """Closed connections, including those that never logged in, as in RabbitMQ."""
        self.channel_created = 0
        self.channel_closed = 0
        self.queue_declared = 0
        """queue.declare requests, including those for existing queues."""
        self.queue_created = 0
        self.queue_deleted = 0
