"""Metadata log entries that decided the state of a queue: part of `records.Queue`.

Two sides of a fork share the entries up to the common index of their logs (`consensus.log_history`). An
entry with a later index was written by one side only. So these indexes tell, of the records of both sides,
what was decided before the sides parted (`cluster.fork_index`).
"""

from __future__ import annotations

import msgspec

UNKNOWN = 1 << 62
"""Index of an entry that was applied while a member of the cluster did not record indexes. It counts as
written by one side only, which sets too many messages aside and never too few."""


class LogIndexes(msgspec.Struct, frozen=True, array_like=True):
    """Indexes of the entries that decided a queue's state."""

    declared: int = 0
    """Declaration of the queue."""
    view: int = UNKNOWN
    """Present view of its ring."""
    epoch: int = UNKNOWN
    """View that began the present epoch."""
    gap: int = UNKNOWN
    """View that last made a copy master which may lack messages: one from a disk, or not synchronised. The
    declaration, if there was none. All copies that descend from it may lack messages of earlier entries."""


def decided_at(index: int) -> LogIndexes:
    """Return the indexes of a queue about whose earlier entries nothing is known or needed."""
    return LogIndexes(index, index, index, index)
