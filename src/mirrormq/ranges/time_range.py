"""Range of ingestion times that a range read is limited to.

A node applies it before messages travel. A node of an earlier release ignores it, so a client applies it
again. A message whose time is unknown (0) counts as older than any other.
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.ranges.range_request import NUMBER_MAX, RequestValues
from mirrormq.wire.fields import Table, table_of

__all__ = ["ALL_TIMES", "TimeRange"]


class TimeRange(NamedTuple):
    """Ingestion times `from_ms` ≤ time < `to_ms`, in milliseconds since the Unix epoch."""

    from_ms: int = 0
    to_ms: int = NUMBER_MAX

    @property
    def limited(self) -> bool:
        """Return whether any message may be excluded."""
        return self != ALL_TIMES

    def overlap(self, other: TimeRange) -> TimeRange:
        """Return the times in both ranges."""
        return TimeRange(max(self.from_ms, other.from_ms), min(self.to_ms, other.to_ms))

    def restrict(self, request: Table) -> Table:
        """Add the range to a read request."""
        if not self.limited:
            return request
        return request | table_of({"ingested_from": self.from_ms, "ingested_to": self.to_ms})

    @classmethod
    def of_request(cls, values: RequestValues) -> TimeRange:
        """Return the range of a read request."""
        return cls(values.number("ingested_from", 0), values.number("ingested_to", NUMBER_MAX))


ALL_TIMES = TimeRange()
