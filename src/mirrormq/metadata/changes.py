"""What a command changed, told to whoever keeps live objects in step with the metadata.

match change:
    case Put(Queue() as queue, None): ...      # a new queue
    case Put(Policy()): ...                    # a policy, new or replaced
    case Deleted(Queue() as queue): ...        # the queue as it was
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.metadata.records import Record


class Put(NamedTuple):
    """A record is there now; `before` is what it replaced."""

    record: Record
    before: Record | None


class Deleted(NamedTuple):
    """A record is gone."""

    record: Record


Change = Put | Deleted
