"""Memory budget for message contents of all queues of a node, and the limits of each queue."""

from __future__ import annotations

from mirrormq.queues.queue_limits import DEFAULT_LIMITS, QueueLimits


class MemoryBudget:
    """Bytes of message contents that the node keeps in memory, over all queues."""

    __slots__ = ("limit_bytes", "limits", "used_bytes")

    def __init__(self, limit_bytes: int, limits: QueueLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
