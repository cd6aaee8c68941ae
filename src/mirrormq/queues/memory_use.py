"""Where a queue's messages are, and whether it has consumers with room; for listings, decides nothing."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq import limits

HALF_LIFE_MS = 1_000
"""After so long the past counts half: RabbitMQ's second."""
NUMBER_BYTES = 8
"""What a message costs that is known by its number only."""


class MemoryUse(NamedTuple):
    """What of a queue is in memory and what on disk, in messages and in bytes of their bodies."""

    ready_ram: int = 0
    unacked_ram: int = 0
    ram_bytes: int = 0
    paged_count: int = 0
    """Known by number only."""
    paged_bytes: int = 0
    persistent_count: int = 0
    persistent_bytes: int = 0
    disk_reads: int = 0
    disk_writes: int = 0
    head_properties: bytes = b""
    """Of the next message, if it is in memory."""

    @property
    def ram_count(self) -> int:
        """Messages whose contents are in memory."""
        return self.ready_ram + self.unacked_ram

    @property
    def memory_bytes(self) -> int:
        """What the messages cost in memory."""
        objects = self.ram_count * limits.MESSAGE_OVERHEAD_BYTES
        return self.ram_bytes + objects + self.paged_count * NUMBER_BYTES

    def __add__(self, other: object) -> MemoryUse:
        """Of two parts of a queue with stores of their own; the head is the first's, if it has one."""
        assert isinstance(other, MemoryUse)
        sums = [mine + theirs for mine, theirs in zip(self[:-1], other[:-1], strict=True)]
        return MemoryUse._make([*sums, self.head_properties or other.head_properties])


class ConsumerUse:
    """Which part of the time a queue had a consumer that could take a message, as RabbitMQ weighs it.

    Each stretch of time with a consumer at hand, together with the one without that follows it, counts by its
    length; what was before it fades.
    """

    __slots__ = ("_average", "_free_ms", "_is_free", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._is_free = True
        self._free_ms = 0
        self._average = 1.0

    def exhausted(self, now_ms: int) -> None:
        """Nobody can take a message."""
        if self._is_free:
            self._free_ms, self._since_ms, self._is_free = now_ms - self._since_ms, now_ms, False

    def available(self, now_ms: int) -> None:
        """Somebody can."""
        if not self._is_free:
            self._average = self._weighed(self._free_ms, now_ms - self._since_ms)
            self._since_ms, self._is_free = now_ms, True

    def share(self, now_ms: int) -> float:
        """From 0 to 1."""
        passed_ms = now_ms - self._since_ms
        return self._weighed(passed_ms, 0) if self._is_free else self._weighed(self._free_ms, passed_ms)

    def _weighed(self, free_ms: int, exhausted_ms: int) -> float:
        total_ms = free_ms + exhausted_ms
        if total_ms <= 0:
            return self._average
        faded: float = 0.5 ** (total_ms / HALF_LIFE_MS)
        return free_ms / total_ms * (1.0 - faded) + self._average * faded
