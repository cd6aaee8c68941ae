"""A simulated node's application: the real broker on the node's simulated disk, without sockets and loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.broker.broker import Broker, Outside
from mirrormq.clock import Clock
from mirrormq.config.settings import Settings
from mirrormq.metadata.state import State
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.paged import HotBudget
from mirrormq.queues.queue import Queue
from mirrormq.simulator.checkers import Copy
from mirrormq.simulator.node import Node
from mirrormq.storage.journal import Journal

SEGMENT_BYTES = 64 * 1024
"""Small, so that segments come and go in a short run."""

HOT_BYTES = 1 << 30
EPOCH_MS = 1_700_000_000_000
"""When simulated time begins, as the broker sees it."""

STOPPING_MS = 20
"""What closing everything takes, at most."""


class BrokerHouse:
    """Implements `simulator.node.House`."""

    def __init__(self, node: Node, turned: Callable[[Node], None]) -> None:
        self._node = node
        self._turned = turned
        """Told when a turn is over: clients may read."""
        self._names = 0
        self.broker: Broker | None = None
        self._journal: Journal | None = None

    @property
    def clients(self) -> int:
        """Open connections."""
        return len(self.broker.connections) if self.broker is not None else 0

    # -- lives ----------------------------------------------------------------------------------

    def start(self, life: int) -> None:
        """Open the journal and serve."""
        node = self._node
        journal = Journal(node.disk, "journal", make_envelope, segment_bytes=SEGMENT_BYTES)
        journal.open()
        metadata = node.member.metadata
        journal.forget_unknown([queue.queue_id for queue in metadata.state.queues.values()])
        self._journal = journal
        outside = Outside(
            self._unique_name, node.choice.randrange, lambda password, user, decided: decided(True)
        )
        settings = Settings(name=node.name)
        clock = Clock(EPOCH_MS + node.world.timeline.now_ms)
        self.broker = Broker(settings, metadata, journal, clock, HotBudget(HOT_BYTES), outside)

    def stop(self, reason: str) -> None:
        """Clients are gone at once; files a moment later."""
        self._end()
        self._node.later(self._node.choice.randrange(STOPPING_MS), self._node.steward.serving.stopped)

    def give_up(self, winner: State, done: Callable[[], None]) -> None:
        """This node's side has lost."""
        self._end()
        self._node.later(self._node.choice.randrange(STOPPING_MS), done)

    def _end(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            for connection in list(broker.connections):
                connection.lost()
            broker.retire()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def part(self) -> None:
        """Somebody is missing."""

    def whole(self) -> None:
        """Everybody is here."""

    def _unique_name(self) -> str:
        self._names += 1
        return f"{self._node.name}-{self._names}"

    def copies(self) -> list[Copy]:
        """What this node holds of each queue."""
        found = []
        if self.broker is not None:
            for queue in self.broker.vhosts["/"].queues.values():
                if isinstance(queue, Queue):
                    count = queue.backing.ready_count + queue.backing.unacked_count
                    found.append(Copy(self._node.name, queue.name, True, ("?",) * count))
        return found

    # -- links and turns ------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """A link is there."""

    def down(self, peer: str) -> None:
        """A link is gone."""

    def receive(self, peer: str, message: Any) -> bool:
        """A message for the application."""
        return False

    def turn(self) -> bool:
        """The end of a turn."""
        broker = self.broker
        if broker is None:
            return False
        broker.clock.now_ms = EPOCH_MS + self._node.world.timeline.now_ms
        broker.clock.run_due()
        more = broker.turn()
        self._turned(self._node)
        return more
