"""Signal handling of programs that must clean up before they end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block with KeyboardInterrupt on Ctrl-C, SIGTERM or SIGHUP; ignore further signals during the
    cleanup."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        # A second signal must not interrupt the cleanup.
        for handled in numbers:
            signal.signal(handled, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, end)
    yield
