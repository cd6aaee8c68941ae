"""Events for operators who watch for a while: the last ones are kept, and fetched by number."""

from __future__ import annotations

from collections import deque
from typing import Any

from mirrormq.wire.fields import Table, plain

KEPT_MAX = 1_000
"""Events kept between two looks of whoever watches, which come several times a second."""
WATCHED_FOR_MS = 10_000
"""So long after the last look somebody is believed to watch."""


class EventWatch:
    """What has happened since somebody began to watch."""

    def __init__(self) -> None:
        self._until_ms = 0
        self._count = 0
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)

    def is_watched(self, now_ms: int) -> bool:
        """Does anybody look?"""
        return now_ms < self._until_ms

    def add(self, name: str, facts: Table) -> None:
        """Something has happened."""
        self._count += 1
        self._kept.append({"event": name, **plain(facts)})

    def after(self, number: int | None, now_ms: int) -> tuple[int, list[dict[str, Any]]]:
        """How many events there have been, and those after the one so numbered; none if it is None, which
        begins to watch."""
        self._until_ms = now_ms + WATCHED_FOR_MS
        missing = 0 if number is None else min(max(self._count - number, 0), len(self._kept))
        found = list(self._kept)[len(self._kept) - missing :]
        return self._count, found
