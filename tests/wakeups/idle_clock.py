"""Event loop whose clock stands still while anything can run.

Sockets, callbacks and threads run at real speed and take no time on this clock. It advances to the next timer
only when no callback is ready, no socket is readable or writable, and no thread works for the loop. So the
time that an exchange takes on this clock is the sum of the timers that it waited for. An exchange that takes
none was woken by events alone.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

QUIET_S = 0.004
"""Real time without any event before the clock advances. A loopback socket is readable as soon as its peer
has written; the pause only covers work of the kernel that is put off to another processor."""


class IdleSelector(selectors.DefaultSelector):
    """Waits for sockets; a timeout passes on the loop's clock instead."""

    loop: IdleClockLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        found = super().select(None if timeout is None or self.loop.threads_at_work else QUIET_S)
        if not found and timeout is not None:
            self.loop.advance(timeout)
        return found


class IdleClockLoop(asyncio.SelectorEventLoop):
    """Runs a node and its clients in one thread."""

    def __init__(self) -> None:
        selector = IdleSelector()
        selector.loop = self
        self._now_s = 0.0
        self.threads_at_work = 0
        super().__init__(selector)

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        self._now_s += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.threads_at_work += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, future: asyncio.Future[Any]) -> None:
        self.threads_at_work -= 1
