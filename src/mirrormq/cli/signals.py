"""Signals that end a program which has something to clear up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM or SIGHUP end the block with KeyboardInterrupt, at whatever point they come; those that
    follow do not disturb the clearing up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)
    yield
