"""Difference of two metadata states as changes, so that a returning node follows without a restart.

A snapshot holds records, not the commands that created them. The difference is therefore reported as new
changes, one record after another: dependants are created last and deleted first. A queue that was deleted
and declared again is another queue. It is removed with its bindings and created anew, and so is an exchange
that changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mirrormq.metadata.changes import Change
from mirrormq.metadata.index_tables import TABLE_OF, TABLES
from mirrormq.metadata.records import Binding, Exchange, Queue
from mirrormq.metadata.state import MetadataState


def changes_to(state: MetadataState, blob: bytes) -> Iterator[Change]:
    """Change the state, step by step, into the state of a snapshot, and yield each change."""
    wanted = MetadataState.from_snapshot(blob) if blob else MetadataState()
    for name in reversed(TABLES):
        for record in list(getattr(state, name).values()):
            if _must_go(state, record, wanted):
                state.remove(record)
                yield from state.take_changes()
    for name in TABLES:
        for record in getattr(wanted, name).values():
            state.store(record)
            yield from state.take_changes()
    state.next_queue_id = wanted.next_queue_id


def _must_go(state: MetadataState, record: Any, wanted: MetadataState) -> bool:
    after = getattr(wanted, TABLE_OF[type(record)]).get(record.key)
    if after is None:
        return True
    if isinstance(record, Queue):
        return bool(after.queue_id != record.queue_id)
    if isinstance(record, Exchange):
        return bool(after != record)
    if isinstance(record, Binding):
        # A binding goes with an end that is replaced, even if the wanted state has an equal binding.
        source = state.exchanges.get((record.vhost, record.source))
        ends: dict[Any, Any] = state.queues if record.destination_kind == "queue" else state.exchanges
        end = ends.get((record.vhost, record.destination))
        return any(each is not None and _must_go(state, each, wanted) for each in (source, end))
    return False
