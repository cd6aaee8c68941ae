"""Memory budget for message contents of all queues of a node."""

from __future__ import annotations


class MemoryBudget:
    """Bytes of message contents that the node keeps in memory, over all queues."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
