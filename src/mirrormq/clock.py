"""Clock as a value: the runtime sets the time, all other code reads it.

Pure code never reads the clock of the operating system. It reads `now_ms`, which the runtime (or the
simulator, or a test) sets before each call. Equal calls therefore give equal results.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Clock:
    """Current time and timers."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        """Milliseconds since the Unix epoch."""
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Call `action` once, at `when_ms` or soon after. Timers cannot be cancelled: the action checks its
        condition again."""
        self._count += 1
        heappush(self._due, (when_ms, self._count, action))

    @property
    def next_ms(self) -> int | None:
        """Due time of the next timer; None without one."""
        return self._due[0][0] if self._due else None

    def run_due(self) -> None:
        """Call every action that was due before the call.

        An action that is due again at once is called in the next turn: a queue with many expired messages
        must not keep the loop from other clients.
        """
        last = self._count
        again = []
        try:
            while self._due and self._due[0][0] <= self.now_ms:
                timer = heappop(self._due)
                if timer[1] > last:
                    again.append(timer)
                else:
                    timer[2]()
        finally:
            for timer in again:
                heappush(self._due, timer)
