"""Longest turns of the event loop: the longest time that one client waits for the work of others."""

from __future__ import annotations

from collections import deque

SECONDS_KEPT = 60
"""Longest window of the metric `mirrormq_turn_longest_seconds`."""


class TurnTimes:
    """Longest turn of each of the last seconds that had a turn."""

    def __init__(self) -> None:
        self._by_second: deque[tuple[int, float]] = deque(maxlen=SECONDS_KEPT)
        self._second = 0
        self._longest_s = 0.0

    def add(self, ended_s: float, took_s: float) -> None:
        """Record a turn."""
        second = int(ended_s)
        if second != self._second:
            self._by_second.append((self._second, self._longest_s))
            self._second, self._longest_s = second, took_s
        elif took_s > self._longest_s:
            self._longest_s = took_s

    def longest_s(self, now_s: float, window_s: int) -> float:
        """Return the longest turn of the last seconds."""
        seconds = [*self._by_second, (self._second, self._longest_s)]
        return max([took_s for second, took_s in seconds if second > now_s - window_s], default=0.0)
