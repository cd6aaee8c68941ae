"""Rate of a link over its last seconds."""

from __future__ import annotations

from collections import deque

WINDOW_MS = 10_000
INTERVAL_MS = 1_000
"""Least distance of two samples: a window has eleven at most."""


class RateMeter:
    """Samples of a growing number."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()
        self._total = 0
        self.grown_ms = 0
        """Time at which the number last grew; 0: never."""

    def note(self, now_ms: int, total: int) -> None:
        """Take a sample if the last one is old enough."""
        samples = self._samples
        if total != self._total:
            self._total, self.grown_ms = total, now_ms
        if samples and now_ms - samples[-1][0] < INTERVAL_MS:
            return
        samples.append((now_ms, total))
        while samples[0][0] < now_ms - WINDOW_MS:
            samples.popleft()

    def per_s(self, now_ms: int, total: int) -> float:
        """Return the growth per second since the first sample of the window; 0 in the first second."""
        first = next((sample for sample in self._samples if sample[0] >= now_ms - WINDOW_MS), None)
        if first is None or now_ms - first[0] < INTERVAL_MS:
            return 0.0
        return (total - first[1]) * 1000 / (now_ms - first[0])
