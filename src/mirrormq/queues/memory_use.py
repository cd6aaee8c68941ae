"""Memory use of a queue and availability of its consumers, for listings only."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq import limits

HALF_LIFE_MS = 1_000
"""Half-life of the past, in milliseconds: one second, as in RabbitMQ."""
NUMBER_BYTES = 8
"""Memory of a message of which only the sequence is in memory."""


class MemoryUse(NamedTuple):
    """Messages and body bytes of a queue in memory and on disk."""

    ready_ram: int = 0
    unacked_ram: int = 0
    ram_bytes: int = 0
    paged_count: int = 0
    """Messages of which only the sequence is in memory."""
    paged_bytes: int = 0
    persistent_count: int = 0
    persistent_bytes: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    head_properties: bytes = b""
    """Properties of the next message, if it is in memory."""

    @property
    def ram_count(self) -> int:
        """Number of messages whose contents are in memory."""
        return self.ready_ram + self.unacked_ram

    @property
    def memory_bytes(self) -> int:
        """Memory that the messages use."""
        objects = self.ram_count * limits.MESSAGE_OVERHEAD_BYTES
        return self.ram_bytes + objects + self.paged_count * NUMBER_BYTES

    def __add__(self, other: object) -> MemoryUse:
        """Add two parts of a queue with separate stores. The head is the first part's, if it has one."""
        assert isinstance(other, MemoryUse)
        sums = [mine + theirs for mine, theirs in zip(self[:-1], other[:-1], strict=True)]
        return MemoryUse._make([*sums, self.head_properties or other.head_properties])


class ConsumerUse:
    """Share of time in which a queue had a consumer with credit, weighed as in RabbitMQ.

    Each period with an available consumer, together with the following period without one, counts by its
    length. Earlier periods decay exponentially.
    """

    __slots__ = ("_average", "_free_ms", "_is_free", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._is_free = True
        self._free_ms = 0
        self._average = 1.0

    def exhausted(self, now_ms: int) -> None:
        """Record that no consumer can accept a message."""
        if self._is_free:
            self._free_ms, self._since_ms, self._is_free = now_ms - self._since_ms, now_ms, False

    def available(self, now_ms: int) -> None:
        """Record that a consumer can accept a message."""
        if not self._is_free:
            self._average = self._weighed(self._free_ms, now_ms - self._since_ms)
            self._since_ms, self._is_free = now_ms, True

    def share(self, now_ms: int) -> float:
        """Return the share of time with an available consumer, from 0 to 1."""
        passed_ms = now_ms - self._since_ms
        return self._weighed(passed_ms, 0) if self._is_free else self._weighed(self._free_ms, passed_ms)

    def _weighed(self, free_ms: int, exhausted_ms: int) -> float:
        total_ms = free_ms + exhausted_ms
        if total_ms <= 0:
            return self._average
        faded: float = 0.5 ** (total_ms / HALF_LIFE_MS)
        return free_ms / total_ms * (1.0 - faded) + self._average * faded
