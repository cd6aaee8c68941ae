"""Polling for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 60.0
"""Time limit: far longer than anything takes on a machine that is busy with other tests."""
POLL_S = 0.02

T = TypeVar("T")


def until(
    condition: Callable[[], T], what: str | Callable[[], str] = "it", patience_s: float = PATIENCE_S
) -> T:
    """Wait until the condition is true, and return its result."""
    deadline = time.monotonic() + patience_s
    while not (result := condition()):
        if time.monotonic() >= deadline:
            description = what if isinstance(what, str) else what()
            raise AssertionError(f"did not happen within {patience_s:g} s: {description}")
        time.sleep(POLL_S)
    return result
