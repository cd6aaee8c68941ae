"""Ctrl-C handling while Spark runs.

An exception in the middle of a call to Java leaves the reply to the next caller. One during the start of Java
leaves a Java process behind. The signal handler therefore only counts Ctrl-C; the running code checks the
count and ends cleanly.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PRESSES_MAX = 3
"""Presses of Ctrl-C after which the program ends at once."""


class InterruptCount:
    """Number of Ctrl-C presses."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: object) -> None:
        """Handle the signal."""
        self.count += 1
        if self.count >= PRESSES_MAX:
            raise KeyboardInterrupt


@contextmanager
def noted() -> Iterator[InterruptCount]:
    """Count Ctrl-C in this block instead of raising. A nested block starts with the outer count and counts
    separately. Only the main thread receives Ctrl-C."""
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
