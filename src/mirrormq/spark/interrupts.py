"""Ctrl-C while Spark works.

An interruption in the middle of a question to Java leaves the answer to whoever asks next, and one while Java
starts leaves a Java that nobody ends. So Ctrl-C is noted, and whoever is at work looks whether it was pressed
and ends in good order.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PRESSES_MAX = 3
"""Who presses it so often wants an end at once, in whatever order."""


class InterruptCount:
    """How often Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: object) -> None:
        """What a signal calls."""
        self.count += 1
        if self.count >= PRESSES_MAX:
            raise KeyboardInterrupt


@contextmanager
def noted() -> Iterator[InterruptCount]:
    """In this block Ctrl-C is counted instead of raised. A block inside another begins with what that one has
    counted, and counts for itself. Only the main thread hears of Ctrl-C."""
    presses = InterruptCount()
    if threading.current_thread() is not threading.main_thread():
        yield presses
        return
    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, InterruptCount):
        presses.count = before.count
    signal.signal(signal.SIGINT, presses)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
