"""Probes: report the internal state of nodes to the checkers after each turn.

Clients see only what a queue does. Two masters at once, different operations in a ring, or different log
entries show earlier, and more clearly, in the nodes themselves.

After a fork each side has its own history, and the two may differ. A history is identified by the term
and branch of the last entry of a node's log: two nodes that agree on it agree on all entries before it.
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
    """Consensus log that also reports applied entries with their term and branch."""

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
    """Probes of one run."""

    def __init__(self, *, parting: bool) -> None:
        self._parting = parting
        """Flag: the mode allows two sides to continue."""
        self.one_master = OneMaster()
        self.logs = LogsAgree()
        self.rings = RingsAgree()
        self.acks = AcksAreNotInvented()
        self.damaged: set[str] = set()
        """Messages of which a record was found damaged."""
        self._seen: dict[tuple[str, int], tuple[object, int, int]] = {}
        """Last inspected replica, epoch and operation, by node and queue."""

    def make_log(self, node: SimulatedNode) -> ConsensusLog:
        """Create the log of a starting process."""
        return ProbedLog(node, self.logs, parting=self._parting)

    def turned(self, node: SimulatedNode, broker: Broker) -> None:
        """Inspect a node at the end of its turn."""
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

    def story(self, node: SimulatedNode) -> object:
        """Return what identifies the history of a node."""
        return node.member.consensus.state.log.last_run.writer if self._parting else None

    def _look(self, node: SimulatedNode, replica: Replica, after: int) -> None:
        ring, story = replica.ring, self.story(node)
        queue = str(replica.queue_id)
        if ring.is_master:
            self.one_master.acts(queue, ring.view.epoch, story, node.name)
        first = max(after, ring.stable)
        for offset, operation in enumerate(ring.log.after(first)):
            number = first + 1 + offset
            epoch = epoch_of(ring.history, number)
            if not epoch or self.rings.observe(node.name, queue, (story, epoch), number, operation):
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
        """Record the messages that masters hold now, including those from times without mirrors, when no
        operations were sent. Another side may use the same sequences for other messages."""
        for queue_id, replica in broker.replica_manager.replicas.items():
            if replica.backing is not None:
                # A damaged record is left out until a mirror has sent the message again.
                for message in replica.backing.load(list(replica.backing.held().numbers())):
                    self.acks.came(queue_id, message.sequence, body_of(message.frames).decode())

    def alone(self, node: SimulatedNode, broker: Broker) -> None:
        """Inspect the masters of queues without mirrors."""
        for record in broker.metadata.state.queues.values():
            queue = broker.vhosts["/"].queues.get(record.name)
            if isinstance(queue, Queue) and record.queue_id not in broker.replica_manager.replicas:
                self.one_master.acts(str(record.queue_id), record.ring.epoch, self.story(node), node.name)


def epoch_of(history: History, number: int) -> int:
    """Return the epoch in which an operation was numbered; 0 if the history does not go back that far."""
    return max((epoch for epoch, base in history if base < number), default=0)
