"""What happens in the broker and is worth a line in the log: collected here, written by the runtime.

Each remark has a category, RabbitMQ's words for it, because levels are set by category. A failure that
concerns ten thousand queues at once is said of some of them, and of the rest how many they are: writing all
of it would take longer than mending it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

DEFAULT, CONNECTION, CHANNEL, QUEUE, MIRRORING = "default", "connection", "channel", "queue", "mirroring"

TURN_MAX = 200
"""Remarks of one category between two takings: some milliseconds of writing."""


class LogEntry(NamedTuple):
    """One line: its level, RabbitMQ's category, a text, and facts for whoever searches."""

    level: str
    category: str
    text: str
    facts: dict[str, Any]


class LogBuffer:
    """Those that nobody has written yet."""

    def __init__(self) -> None:
        self._pending: list[LogEntry] = []
        self._counts: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, level: str, category: str, text: str, **facts: Any) -> None:
        """Something happened."""
        self._counts[category] += 1
        if self._counts[category] <= TURN_MAX:
            self._pending.append(LogEntry(level, category, text, facts))

    def warn(self, text: str) -> None:
        """Something happened that an operator should know."""
        self.add("warning", DEFAULT, text)

    def take(self) -> list[LogEntry]:
        """What has been collected, for writing."""
        taken, self._pending = self._pending, []
        for category, count in self._counts.items():
            if count > TURN_MAX:
                text = f"{count - TURN_MAX} more events at the same time are not shown"
                taken.append(LogEntry("info", category, text, {}))
        self._counts.clear()
        return taken
