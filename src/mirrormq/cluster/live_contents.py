"""Queue contents of a running broker, for the case that its side of a partition loses
(`cluster.orphan_collector`)."""

from __future__ import annotations

from collections.abc import Iterable

from mirrormq.cluster.fork_index import ForkIndex
from mirrormq.cluster.orphan_host import OrphanHost
from mirrormq.metadata import records
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.replication.replica import Replica
from mirrormq.replication.ring_operations import AppendOperation, decode


class LiveQueueContents:
    """Messages and fork indexes of all queues. Implements `cluster.orphan_collector.QueueContents`."""

    def __init__(self, broker: OrphanHost) -> None:
        self._broker = broker
        self._me = broker.settings.name

    def fork_indexes(self) -> dict[int, ForkIndex]:
        """Return the fork index of each queue of this node, as it would be now."""
        return {
            record.queue_id: ForkIndex(self._first_unshared(record), record.indexes.view)
            for record in self._broker.metadata.state.queues.values()
            if self._me in record.ring.members
        }

    def _first_unshared(self, record: records.Queue) -> int:
        replica = self._broker.replica_manager.replicas.get(record.queue_id)
        if replica is not None:
            return first_unshared(replica)
        queue = self._local(record)
        return queue.backing.next_sequence if queue is not None else 0

    def in_memory(self, queue: records.Queue) -> Iterable[Message]:
        """Return the messages of a queue that are not in the journal, whether delivered or not."""
        replica = self._broker.replica_manager.replicas.get(queue.queue_id)
        if replica is not None and replica.copy is not None:
            # A mirror's copy writes its messages to the journal instead, so that none is in memory only.
            replica.copy.page_out()
            return ()
        if replica is not None and replica.backing is not None:
            return replica.backing.in_memory()
        local = self._local(queue)
        if local is None:
            return ()
        unacked = self._broker.unacked_of(local, queue.queue_id)
        return [message for message in (*local.backing.unstored(), *unacked) if not message.position]

    def _local(self, record: records.Queue) -> Queue | None:
        vhost = self._broker.vhosts.get(record.vhost)
        queue = vhost.queues.get(record.name) if vhost is not None else None
        return queue if isinstance(queue, Queue) else None


def first_unshared(replica: Replica) -> int:
    """Return the first message that other members of a ring may lack: the oldest of those not known to be
    on all members, otherwise the next one."""
    holder = replica.backing or replica.copy
    assert holder is not None
    held = holder.held().spans()
    next_sequence = held[-1][0] + held[-1][1] if held else 0
    for data in replica.ring.log.after(replica.ring.stable):
        operation = decode(data)
        if isinstance(operation, AppendOperation):
            return min(operation.first_sequence, next_sequence) if held else operation.first_sequence
    return next_sequence
