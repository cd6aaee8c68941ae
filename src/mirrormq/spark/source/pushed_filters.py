"""Filters of a batch read that the reader applies before it requests messages: queues, sequences and times.

Spark offers the conditions of a query that compare a column with constants. The reader accepts those on
`queue` and `sequence`, because a range read is a queue and a range. Nodes leave out messages by their
ingestion time, in milliseconds; Spark applies conditions on `ingestion_time` to the others again, and all
further ones itself.

Spark refuses a reader with `pushFilters` if the setting `spark.sql.python.filterPushdown.enabled` is off, and
asks only one with the method if it is on. `register` sets it. A format that Spark found by itself has to work
without it, so the data source uses the class with the method only in the process that Spark starts to offer
filters (`offers_filters`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from mirrormq.ranges.time_range import ALL_TIMES, TimeRange

SETTING = "spark.sql.python.filterPushdown.enabled"
PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"

EPOCH = datetime.fromtimestamp(0, UTC)

SEQUENCE_MAX = (1 << 63) - 1


@dataclass
class PushedFilters:
    """Queues and sequences that all accepted filters let through."""

    queues: frozenset[str] | None = None
    """None: any."""
    first: int = 0
    end: int = SEQUENCE_MAX
    """First sequence that is excluded."""
    times: TimeRange = ALL_TIMES
    """Ingestion times that no filter excludes, in whole milliseconds."""

    def accept(self, given: Filter) -> bool:
        """Apply a filter; return False if the reader cannot."""
        column = getattr(given, "attribute", ())
        if isinstance(given, IsNotNull):
            return column in (("queue",), ("sequence",))
        if column == ("queue",) and isinstance(given, EqualTo | EqualNullSafe | In):
            wanted = given.value if isinstance(given, In) else (given.value,)
            named = frozenset(value for value in wanted if isinstance(value, str))
            self.queues = named if self.queues is None else self.queues & named
            return True
        value = getattr(given, "value", None)
        if column == ("ingestion_time",) and isinstance(value, datetime) and value.tzinfo is not None:
            self._limit_times(given, (value - EPOCH) // timedelta(milliseconds=1))
            return False
        if column != ("sequence",) or not isinstance(value, int) or isinstance(value, bool):
            return False
        if isinstance(given, GreaterThan | GreaterThanOrEqual):
            self._limit(value + isinstance(given, GreaterThan), SEQUENCE_MAX)
        elif isinstance(given, LessThan | LessThanOrEqual):
            self._limit(0, value + isinstance(given, LessThanOrEqual))
        elif isinstance(given, EqualTo | EqualNullSafe):
            self._limit(value, value + 1)
        else:
            return False
        return True

    def lets_through(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def _limit_times(self, given: Filter, value_ms: int) -> None:
        from_ms, to_ms = self.times
        if isinstance(given, GreaterThan | GreaterThanOrEqual | EqualTo | EqualNullSafe):
            from_ms = max(from_ms, value_ms)
        if isinstance(given, LessThan | LessThanOrEqual | EqualTo | EqualNullSafe):
            to_ms = min(to_ms, max(0, value_ms + 1))
        self.times = TimeRange(from_ms, to_ms)

    def _limit(self, first: int, end: int) -> None:
        self.first, self.end = max(self.first, first), min(self.end, end)


def offers_filters() -> bool:
    """Return whether Spark started this process to offer filters."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PLANNER in sys.modules or (main is not None and main.name == PLANNER)
