"""What a running broker holds, for the case that its side of a partition loses
(`cluster.orphan_collector`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mirrormq.cluster.divergence import DivergenceMark
from mirrormq.metadata import records
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.replication.replica import Replica
from mirrormq.replication.ring_operations import AppendOperation, decode

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


class LiveQueueContents:
    """Implements `cluster.orphan_collector.QueueContents`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._me = broker.settings.name

    def marks(self) -> dict[int, DivergenceMark]:
        """Where each queue that this node holds would part from the others' copies now."""
        found = {}
        for record in self._broker.metadata.state.queues.values():
            if self._me in record.ring.members:
                others = record.ring.in_sync - {self._me}
                shared = tuple(sorted(each for each in record.ring.incarnations if each[0] in others))
                found[record.queue_id] = DivergenceMark(self._first_unshared(record), shared)
        return found

    def _first_unshared(self, record: records.Queue) -> int:
        replica = self._broker.replica_manager.replicas.get(record.queue_id)
        if replica is not None:
            return first_unshared(replica)
        queue = self._local(record)
        return queue.backing.next_sequence if queue is not None else 0

    def in_memory(self, queue: records.Queue) -> Iterable[Message]:
        """The messages of a queue that the journal does not have, with consumers or not."""
        replica = self._broker.replica_manager.replicas.get(queue.queue_id)
        if replica is not None and replica.copy is not None:
            replica.copy.page_out()
            return ()
        if replica is not None and replica.backing is not None:
            return replica.backing.in_memory()
        found = self._local(queue)
        if found is None:
            return ()
        out = self._broker.unacked_of(found, queue.queue_id)
        return [message for message in (*found.backing.unstored(), *out) if not message.position]

    def _local(self, record: records.Queue) -> Queue | None:
        vhost = self._broker.vhosts.get(record.vhost)
        queue = vhost.queues.get(record.name) if vhost is not None else None
        return queue if isinstance(queue, Queue) else None


def first_unshared(replica: Replica) -> int:
    """The first message that other members of a ring may lack: the oldest of those that are not known to be
    everywhere, or else the next one to come."""
    holder = replica.backing or replica.copy
    assert holder is not None
    held = holder.held().ranges()
    following = held[-1][0] + held[-1][1] if held else 0
    for data in replica.ring.log.after(replica.ring.stable):
        operation = decode(data)
        if isinstance(operation, AppendOperation):
            return min(operation.first_sequence, following) if held else operation.first_sequence
    return following
