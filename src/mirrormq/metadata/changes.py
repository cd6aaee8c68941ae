"""Change events: what a command changed, for listeners that keep live objects in step with the metadata.

match change:
    case Put(Queue() as queue, None): ...      # a new queue
    case Put(Policy()): ...                    # a policy, new or replaced
    case Deleted(Queue() as queue): ...        # the queue as it was
"""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.metadata.records import Record


class Put(NamedTuple):
    """Record that was created or replaced; `before` is its previous version."""

    record: Record
    before: Record | None


class Deleted(NamedTuple):
    """Record that was deleted."""

    record: Record


Change = Put | Deleted
