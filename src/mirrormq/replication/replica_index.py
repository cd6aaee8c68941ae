"""Replica index: the queues of each node, kept up to date from metadata changes."""

from __future__ import annotations

from collections import Counter

from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState


class ReplicaIndex:
    """Index of the rings in the metadata by node."""

    def __init__(self, state: MetadataState) -> None:
        self.masters: Counter[str] = Counter()
        """Number of queues whose master is on each node."""
        self.held: dict[str, dict[int, None]] = {}
        """Ids of the queues that have each node as a ring member, or wait for it."""
        for queue in state.queues.values():
            self._count(queue)

    def follow(self, change: Change) -> None:
        """Update the index after a metadata change."""
        record = change.record
        if not isinstance(record, Queue):
            return
        before = change.before if isinstance(change, Put) else record
        if isinstance(before, Queue):
            if isinstance(change, Put) and before.ring.members == record.ring.members:
                return
            self._discount(before)
        if isinstance(change, Put):
            self._count(record)

    def _count(self, queue: Queue) -> None:
        members = queue.ring.members
        self.masters[members[0]] += 1
        for name in members:
            self.held.setdefault(name, {})[queue.queue_id] = None

    def _discount(self, queue: Queue) -> None:
        members = queue.ring.members
        self.masters[members[0]] -= 1
        for name in members:
            del self.held[name][queue.queue_id]
