"""Time that passes only when everything due has been done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from heapq import heappop, heappush

from mirrormq.storage.simulated_disk import SimulatedCrash


class EndlessEvents(Exception):
    """More happens than can be."""


class VirtualTime:
    """What happens, in order. Things due at the same moment happen in the order they were planned."""

    def __init__(self, now_ms: int = 0, events_max: int = sys.maxsize) -> None:
        self.now_ms = now_ms
        self._events_max = events_max
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.on_crash: Callable[[], None] = lambda: None
        """A machine stopped in the middle of what was done."""

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Do this then, or now if that is over."""
        self._count += 1
        heappush(self._due, (max(when_ms, self.now_ms), self._count, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do this so much later."""
        self.at(self.now_ms + delay_ms, action)

    def every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Do this again and again, also if a machine stops in the middle of it."""

        def again() -> None:
            self.after(interval_ms, again)
            action()

        self.after(interval_ms, again)

    def run_until(self, end_ms: int) -> None:
        """Let time pass."""
        while self._due and self._due[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._due)
            if self._count > self._events_max:
                raise EndlessEvents(f"{self._count} things were planned, and there is no end to it")
            try:
                action()
            except SimulatedCrash:
                self.on_crash()
        self.now_ms = max(self.now_ms, end_ms)
