"""Event watch: keeps recent events for operators, who fetch them by number."""

from __future__ import annotations

from collections import deque
from typing import Any

from mirrormq.wire.fields import Table, plain

KEPT_MAX = 1_000
"""Events kept between two fetches; a watching operator fetches several times a second."""
WATCHED_FOR_MS = 10_000
"""Milliseconds after the last fetch during which an operator counts as watching."""


class EventWatch:
    """Events since an operator began to watch."""

    def __init__(self) -> None:
        self._until_ms = 0
        self._count = 0
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)

    def is_watched(self, now_ms: int) -> bool:
        """Return whether an operator watches."""
        return now_ms < self._until_ms

    def add(self, name: str, facts: Table) -> None:
        """Record an event."""
        self._count += 1
        self._kept.append({"event": name, **plain(facts)})

    def after(self, number: int | None, now_ms: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of events so far, and those after event `number`. None starts watching and
        returns no events."""
        self._until_ms = now_ms + WATCHED_FOR_MS
        missing = 0 if number is None else min(max(self._count - number, 0), len(self._kept))
        events = list(self._kept)[len(self._kept) - missing :]
        return self._count, events
