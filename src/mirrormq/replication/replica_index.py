"""Which node holds which queues: an index over the rings in the metadata, kept by following its changes."""

from __future__ import annotations

from collections import Counter

from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState


class ReplicaIndex:
    """Who holds what."""

    def __init__(self, state: MetadataState) -> None:
        self.masters: Counter[str] = Counter()
        """How many queues have their master on a node."""
        self.held: dict[str, dict[int, None]] = {}
        """The ids of the queues of whose rings a node is a member, or that wait for it."""
        for queue in state.queues.values():
            self._count(queue)

    def follow(self, change: Change) -> None:
        """The metadata has changed."""
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
