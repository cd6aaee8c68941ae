"""Log buffer: collects log entries of the broker, which the runtime writes.

Each entry has RabbitMQ's category, because levels are set by category. A failure that concerns ten
thousand queues at once is logged for some of them, followed by the number of the others: writing all of
them would take longer than the repair.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

DEFAULT, CONNECTION, CHANNEL, QUEUE, MIRRORING = "default", "connection", "channel", "queue", "mirroring"
FEDERATION = "federation"
"""Category of links: shovels and federation."""

TURN_MAX = 200
"""Entries of one category per turn: some milliseconds of writing."""


class LogEntry(NamedTuple):
    """One log line: level, RabbitMQ's category, text, and facts for searches."""

    level: str
    category: str
    text: str
    facts: dict[str, Any]


class LogBuffer:
    """Entries that are not written yet."""

    def __init__(self) -> None:
        self._pending: list[LogEntry] = []
        self._counts: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, level: str, category: str, text: str, **facts: Any) -> None:
        """Add an entry."""
        self._counts[category] += 1
        if self._counts[category] <= TURN_MAX:
            self._pending.append(LogEntry(level, category, text, facts))

    def warn(self, text: str) -> None:
        """Add a warning for the operator."""
        self.add("warning", DEFAULT, text)

    def take(self) -> list[LogEntry]:
        """Return and remove the collected entries."""
        taken, self._pending = self._pending, []
        for category, count in self._counts.items():
            if count > TURN_MAX:
                text = f"{count - TURN_MAX} more events at the same time are not shown"
                taken.append(LogEntry("info", category, text, {}))
        self._counts.clear()
        return taken
