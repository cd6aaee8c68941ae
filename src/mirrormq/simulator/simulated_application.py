"""Application of a simulated node: the real broker on a simulated disk, without sockets and event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.broker.broker import Broker, Environment
from mirrormq.clock import Clock
from mirrormq.cluster.fork_index import LostFork
from mirrormq.cluster.live_contents import LiveQueueContents
from mirrormq.cluster.orphan_collector import OrphanCollector, StoredContents
from mirrormq.cluster.orphan_restorer import OrphanRestorer
from mirrormq.config.settings import Settings
from mirrormq.connections.open_connections import open_connections
from mirrormq.metadata.state import MetadataState
from mirrormq.peers.stream_frames import StreamFrame, StreamHello
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.replication.replica import Replica
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.simulator.checkers import SimulatedCopy
from mirrormq.simulator.link_run import LinkRun
from mirrormq.simulator.simulated_links import SimulatedLinks
from mirrormq.simulator.simulated_node import SimulatedNode
from mirrormq.storage.journal import Journal
from mirrormq.wire.content import body_of

HOT_BYTES = 1 << 30
HOUSEKEEPING_BYTES = 1024
"""Bytes compacted at a time."""

EPOCH_MS = 1_700_000_000_000
"""Wall-clock time at the start of the simulation, as the broker sees it."""

STOPPING_MS = 20
"""Longest time to stop the application."""


class SimulatedApplication:
    """Application of a simulated node. Implements `simulator.simulated_node.HostedApplication`."""

    def __init__(
        self,
        node: SimulatedNode,
        turned: Callable[[SimulatedNode], None],
        link_run: LinkRun | None = None,
    ) -> None:
        self._node = node
        self._link_run = link_run
        self._turned = turned
        """Called at the end of a turn, when clients may read."""
        self._names = 0
        self.broker: Broker | None = None
        self._links: SimulatedLinks | None = None
        self.orphan_collector: OrphanCollector | None = None
        self._journal: Journal | None = None

    @property
    def clients(self) -> int:
        """Number of open connections."""
        return len(self.broker.connections) if self.broker is not None else 0

    # -- lifecycle ------------------------------------------------------------------------------

    def start(self, incarnation: int) -> None:
        """Open the journal and serve clients."""
        node = self._node
        metadata = node.member.metadata
        journal = self._open_journal()
        journal.forget_unknown([queue.queue_id for queue in metadata.state.queues.values()])
        outside = Environment(
            self._unique_name,
            node.choice.randrange,
            lambda check: check.decided(True),
            lambda peer, message: node.send(peer, message, False),
            limits=node.world.limits.broker,
        )
        settings = Settings(name=node.name, mirroring_sync_batch_size=node.world.limits.sync_batch_messages)
        clock = Clock(EPOCH_MS + node.world.timeline.now_ms)
        self.broker = Broker(
            settings,
            metadata,
            journal,
            clock,
            MemoryBudget(HOT_BYTES, node.world.limits.broker.queues),
            outside,
        )
        for peer in sorted(node.member.linked):
            self.broker.link_up(peer)
        assert self.orphan_collector is not None
        OrphanRestorer(self.broker, self.orphan_collector.orphans)
        if node.controller.apart:
            self.partition_started()
        if node.world.limits.housekeeping_ms:
            self._compact(journal)
        if self._link_run is not None:
            self._links = SimulatedLinks(node, self.broker, incarnation, self._link_run)
        node.wake()

    def _compact(self, journal: Journal) -> None:
        if self._journal is journal:
            journal.housekeeping(HOUSEKEEPING_BYTES)
            self._node.later(self._node.world.limits.housekeeping_ms, lambda: self._compact(journal))

    def _open_journal(self) -> Journal:
        node = self._node
        journal = Journal(node.disk, "journal", make_envelope, limits=node.world.limits.journal)
        journal.open()
        self.orphan_collector = OrphanCollector(
            node.name, node.disk, "orphanage", journal, node.world.limits.orphan_batch_messages
        )
        self.orphan_collector.open()
        self._journal = journal
        return journal

    def stop(self, reason: str) -> None:
        """Close clients at once, and files a moment later."""
        self._end()
        self._node.later(self._node.choice.randrange(STOPPING_MS), self._node.controller.serving.stopped)

    def discard_state(self, winner: MetadataState, common: int, done: Callable[[], None]) -> None:
        """Set aside what only this node's losing side has, and stop."""
        node = self._node
        mine, companions = node.member.state_at_the_end(), node.controller.companions
        fork = LostFork(mine, winner, common, companions, node.world.timeline.now_ms)
        if self._journal is None:
            self._open_journal()
        assert self.orphan_collector is not None
        holdings = StoredContents() if self.broker is None else LiveQueueContents(self.broker)
        self.orphan_collector.set_aside(holdings, fork)
        self._end(fork)
        node.later(node.choice.randrange(STOPPING_MS), done)

    def _end(self, fork: LostFork | None = None) -> None:
        if self._links is not None:
            self._links.stop()
            self._links = None
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.detach()
            for connection in open_connections(broker):
                connection.lost()
        if self._journal is not None:
            if fork is not None and self.orphan_collector is not None:
                self.orphan_collector.let_go(fork)
            self._journal.close()
            self._journal = self.orphan_collector = None

    def partition_started(self) -> None:
        """Write the fork indexes, because a node is missing."""
        if self.broker is not None and self.orphan_collector is not None:
            self.orphan_collector.partition_started(LiveQueueContents(self.broker))

    def partition_ended(self) -> None:
        """Drop the fork indexes."""
        if self.orphan_collector is not None:
            self.orphan_collector.partition_ended()

    def peer_alarms(self, alarms: dict[str, tuple[str, ...]]) -> None:
        """Ignore alarms: simulated machines have none."""

    def _unique_name(self) -> str:
        self._names += 1
        return f"{self._node.name}-{self._names}"

    # -- links and turns ------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """Process a new link."""
        if self.broker is not None:
            self.broker.link_up(peer)

    def down(self, peer: str) -> None:
        """Process a lost link."""
        if self.broker is not None:
            self.broker.link_down(peer)

    def receive(self, peer: str, message: Any) -> bool:
        """Process a message for the application. Return False if it is not for the application."""
        if not isinstance(message, RingBatch | StreamHello | StreamFrame):
            return False
        if self.broker is not None:
            self.broker.link_message(peer, message)
        return True

    def turn(self) -> bool:
        """End a turn. Return True if more work is due at once."""
        broker = self.broker
        if broker is None:
            return False
        broker.clock.now_ms = EPOCH_MS + self._node.world.timeline.now_ms
        broker.clock.run_due()
        more = broker.turn()
        if broker.clock.next_ms is not None:
            self._node.wake_at(max(broker.clock.next_ms, broker.clock.now_ms + 1) - EPOCH_MS)
        self._turned(self._node)
        return more

    # -- contents -------------------------------------------------------------------------------

    def copies(self) -> list[SimulatedCopy]:
        """Return this node's copy of each queue, if it is a ring member or the queue has no mirrors."""
        copies: list[SimulatedCopy] = []
        if self.broker is None:
            return copies
        state = self.broker.metadata.state
        for record in state.queues.values():
            replica = self.broker.replica_manager.replicas.get(record.queue_id)
            queue = self.broker.vhosts["/"].queues.get(record.name)
            if replica is not None and self._node.name in replica.view.members:
                copies.append(self._copy(record.name, replica))
            elif isinstance(queue, Queue):
                count = queue.backing.ready_count + queue.backing.unacked_count
                copies.append(SimulatedCopy(self._node.name, record.name, True, ("?",) * count))
        return copies

    def _copy(self, queue: str, replica: Replica) -> SimulatedCopy:
        ring, messages = replica.ring, messages_of(replica)
        bodies = tuple(body_of(message.frames).decode() for message in messages)
        times = tuple(message.ingested_ms for message in messages)
        return SimulatedCopy(self._node.name, queue, ring.is_master, bodies, ring.received, times)

    def has_orphans(self) -> bool:
        """Return whether the node holds orphans that are not republished yet."""
        return self.orphan_collector is not None and bool(self.orphan_collector.orphans.titles)

    def empty(self) -> bool:
        """Return whether the node holds no messages."""
        broker = self.broker
        if broker is None:
            return True
        queues = [queue for queue in broker.vhosts["/"].queues.values() if isinstance(queue, Queue)]
        return not any(queue.backing.ready_count or queue.backing.unacked_count for queue in queues)


def messages_of(replica: Replica) -> list[Message]:
    """Return the messages of a replica, oldest first."""
    if replica.backing is not None:
        return replica.backing.load(list(replica.backing.held().numbers()))
    assert replica.copy is not None
    return replica.copy.messages()
