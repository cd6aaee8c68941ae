"""Time as a value: the runtime writes it, everybody else reads it.

Pure code never asks the operating system what time it is. It reads `now_ms`, which the runtime (or
the simulator, or a test) sets before it calls in; so the same calls give the same results again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Clock:
    """The time now, and what is to be done later."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        """Milliseconds since the Unix epoch."""
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Do `action` once, at `when_ms` or soon after. There is no cancelling: actions look again."""
        self._count += 1
        heappush(self._due, (when_ms, self._count, action))

    @property
    def next_ms(self) -> int | None:
        """When the next action is due."""
        return self._due[0][0] if self._due else None

    def run_due(self) -> None:
        """Do everything that is due by now."""
        while self._due and self._due[0][0] <= self.now_ms:
            heappop(self._due)[2]()
