"""What can be seen only from inside, while it happens: told to the checkers after each turn of a node.

Clients see what a queue does. Whether two nodes were master at once, whether the members of a ring were told
the same, and whether all logs hold the same entries shows earlier, and more clearly, in the nodes themselves.

Where sides may part, each has its own story, and what two stories say may differ. A story is named by whoever
wrote the last entry of a node's log: two nodes that agree on that agree on everything before it.
"""

from __future__ import annotations

from mirrormq.broker.broker import Broker
from mirrormq.consensus import Entry, Ready, StoredLog
from mirrormq.queues.queue import Queue
from mirrormq.replication.common_history import History
from mirrormq.replication.replica import Replica
from mirrormq.replication.ring_operations import AppendOperation, RemoveOperation, decode
from mirrormq.simulator.checkers import AcksAreNotInvented, LogsAgree, OneMaster, RingsAgree
from mirrormq.simulator.simulated_node import METADATA, SimulatedNode
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.wire.content import body_of


class ProbedLog(ConsensusLog):
    """The real one, that also tells what is applied, and who wrote it."""

    def __init__(self, node: SimulatedNode, logs: LogsAgree, *, parting: bool) -> None:
        super().__init__(node.disk, METADATA)
        self._node = node.name
        self._logs = logs
        self._parting = parting
        self._writers: dict[int, tuple[int, int]] = {}

    def load(self) -> StoredLog:
        stored = super().load()
        self._note(stored.entries)
        return stored

    def save(self, ready: Ready) -> None:
        super().save(ready)
        self._note(ready.entries)
        for entry in ready.committed:
            story = self._writers.get(entry.index) if self._parting else None
            said = b"%b %d %b" % (entry.origin.encode(), entry.number, entry.data)
            self._logs.applied(self._node, story, entry.index, said)

    def _note(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._writers[entry.index] = entry.term, entry.branch


class Probes:
    """The eyes of the checkers."""

    def __init__(self, *, parting: bool) -> None:
        self._parting = parting
        """May two sides go on?"""
        self.one_master = OneMaster()
        self.logs = LogsAgree()
        self.rings = RingsAgree()
        self.acks = AcksAreNotInvented()
        self.damaged: set[str] = set()
        """Messages of which a record was found damaged."""
        self._seen: dict[tuple[str, int], tuple[object, int, int]] = {}
        """By node and queue: which replica was looked at, in which epoch, and up to which operation."""

    def make_log(self, node: SimulatedNode) -> ConsensusLog:
        """What a starting process remembers of its cluster."""
        return ProbedLog(node, self.logs, parting=self._parting)

    def turned(self, node: SimulatedNode, broker: Broker) -> None:
        """A node has ended a turn."""
        if broker.journal.damage.pending_count:
            for queue_id, sequences in broker.journal.damage.pending().items():
                self.damaged.update(*(self.acks.bodies(queue_id, sequence) for sequence in sequences))
        for queue_id, replica in broker.replica_manager.replicas.items():
            ring = replica.ring
            key = node.name, queue_id
            seen = self._seen.get(key)
            now = (ring, ring.view.epoch, ring.received)
            if seen is None or seen[0] is not ring or seen[1:] != now[1:]:
                self._seen[key] = now
                after = seen[2] if seen is not None and seen[0] is ring else 0
                self._look(node, replica, after)

    def _story(self, node: SimulatedNode) -> object:
        return node.member.consensus.state.log.last_run.writer if self._parting else None

    def _look(self, node: SimulatedNode, replica: Replica, after: int) -> None:
        ring, story = replica.ring, self._story(node)
        queue = str(replica.queue_id)
        if ring.is_master:
            self.one_master.acts(queue, ring.view.epoch, story, node.name)
        first = max(after, ring.stable)
        for offset, operation in enumerate(ring.log.after(first)):
            number = first + 1 + offset
            epoch = epoch_of(ring.history, number)
            if not epoch or self.rings.told(node.name, queue, (story, epoch), number, operation):
                self._note(replica.queue_id, operation)

    def _note(self, queue_id: int, data: bytes) -> None:
        operation = decode(data)
        if isinstance(operation, AppendOperation):
            for offset, frames in enumerate(operation.contents):
                self.acks.came(queue_id, operation.first_sequence + offset, body_of(frames).decode())
        elif isinstance(operation, RemoveOperation):
            for first, count in operation.ranges:
                for sequence in range(first, first + count):
                    self.acks.went(queue_id, sequence)

    def take_stock(self, broker: Broker) -> None:
        """What masters have now has come to them, also what came while they had no mirrors: nobody was told
        of that, and on another side its numbers may have been others'."""
        for queue_id, replica in broker.replica_manager.replicas.items():
            if replica.backing is not None:
                # A damaged record is left out until a mirror has sent the message again.
                for message in replica.backing.load(list(replica.backing.held().numbers())):
                    self.acks.came(queue_id, message.sequence, body_of(message.frames).decode())

    def alone(self, node: SimulatedNode, broker: Broker) -> None:
        """Queues without mirrors have a master, too."""
        for record in broker.metadata.state.queues.values():
            queue = broker.vhosts["/"].queues.get(record.name)
            if isinstance(queue, Queue) and record.queue_id not in broker.replica_manager.replicas:
                self.one_master.acts(str(record.queue_id), record.ring.epoch, self._story(node), node.name)


def epoch_of(history: History, number: int) -> int:
    """The epoch in which an operation was numbered; 0 if the history does not go back that far."""
    return max((epoch for epoch, base in history if base < number), default=0)
