"""Waiting for something that is about to be so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0
"""Far longer than anything takes on a machine that is busy with other tests."""
POLL_S = 0.02

T = TypeVar("T")


def until(
    condition: Callable[[], T], what: str | Callable[[], str] = "it", patience_s: float = PATIENCE_S
) -> T:
    """What the condition gives, once it gives something true."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        if time.monotonic() >= deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"did not happen within {patience_s:g} s: {told}")
        time.sleep(POLL_S)
    return found
