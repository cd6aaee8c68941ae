"""Virtual time, which advances only when everything due has been done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from heapq import heappop, heappush

from mirrormq.storage.simulated_disk import SimulatedCrash


class EndlessEvents(Exception):
    """Error of a run that schedules events without end."""


class VirtualTime:
    """Event queue in order of time. Actions due at the same moment run in the order of scheduling."""

    def __init__(self, now_ms: int = 0, events_max: int = sys.maxsize) -> None:
        self.now_ms = now_ms
        self._events_max = events_max
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.on_crash: Callable[[], None] = lambda: None
        """Called when a machine stopped in the middle of an action."""

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Run an action at a time, or at once if that time has passed."""
        self._count += 1
        heappush(self._due, (max(when_ms, self.now_ms), self._count, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action after a delay."""
        self.at(self.now_ms + delay_ms, action)

    def every(self, interval_ms: int, action: Callable[[], None]) -> None:
        """Run an action periodically, even if a machine stops in the middle of it."""

        def again() -> None:
            self.after(interval_ms, again)
            action()

        self.after(interval_ms, again)

    def run_until(self, end_ms: int) -> None:
        """Run all actions that are due until `end_ms`."""
        while self._due and self._due[0][0] <= end_ms:
            self.now_ms, _, action = heappop(self._due)
            if self._count > self._events_max:
                raise EndlessEvents(f"{self._count} events were scheduled, the limit is {self._events_max}")
            try:
                action()
            except SimulatedCrash:
                self.on_crash()
        self.now_ms = max(self.now_ms, end_ms)
