"""What all queues of a node may together keep in memory."""

from __future__ import annotations


class MemoryBudget:
    """How many bytes of message content the node keeps in memory, over all queues."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
