"""End of the programs: exit codes that mean something to a service manager or a shell, and signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

CONFIGURATION = 78
"""Exit code EX_CONFIG of sysexits.h. Service managers do not restart a node that ends with it."""

UNAVAILABLE = 75
"""Exit code EX_TEMPFAIL of sysexits.h: an address or directory is in use, and a later start may succeed."""

INTERRUPTED = 130
"""Exit code that shells give a program ended by Ctrl-C."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the block with KeyboardInterrupt on Ctrl-C, SIGTERM or SIGHUP; ignore further signals during the
    cleanup."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        # A second signal must not interrupt the cleanup.
        for handled in ENDING:
            signal.signal(handled, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ENDING:
        signal.signal(number, end)
    yield


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold signals back until the end of the block, which must not be left half done.

    An ignored signal stays ignored: a child process inherits that.
    """
    arrived: list[int] = []
    # Only the main thread handles signals.
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in ENDING} if is_main else {}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])
