"""The world: nodes, links, clients, faults, and how a run goes.

    form      all nodes start and find each other
    load      clients publish and consume; faults come and go as the schedule says
    heal      no more faults; whoever is down is started, publishers rest
    drain     consumers take what is left
    judge     the checkers say what was wrong

Everything is drawn from one seed, and nothing else is asked for a number or for the time. So a seed that
fails fails again, and `Options.left_out` finds out which of its faults it needs.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from mirrormq.broker.broker import Broker
from mirrormq.cluster.messages import ClusterMessage
from mirrormq.cluster.partitions import AUTO, PAUSE_MINORITY, Handling
from mirrormq.cluster.steward import StewardMessage
from mirrormq.consensus import Snapshot, founded
from mirrormq.metadata import commands as c
from mirrormq.metadata import records
from mirrormq.metadata.state import State
from mirrormq.metadata.tables import TABLES
from mirrormq.remote.messages import RemoteMessage
from mirrormq.replication.messages import RingMail
from mirrormq.simulator import checkers, faults
from mirrormq.simulator.checkers import Copy
from mirrormq.simulator.history import History
from mirrormq.simulator.house import BrokerHouse
from mirrormq.simulator.mishaps import POLICIES, Mishaps
from mirrormq.simulator.network import Network
from mirrormq.simulator.node import House, Node
from mirrormq.simulator.timeline import Timeline
from mirrormq.simulator.workload import Client, Consumer, Publisher

TRACE_LINES = 400
"""Of the last things that happened, so many are remembered."""

LOOK_MS = 100
FORM_MS = 20_000
SETTLE_MS = 180_000
"""Far longer than anything takes: what has not happened by then never will."""


class Options(NamedTuple):
    """What a run is like."""

    seed: int
    nodes: int = 3
    mode: str = AUTO
    load_ms: int = 30_000
    faults: int = 6
    queues: int = 2
    publishers: int = 3
    consumers: int = 3
    left_out: frozenset[int] = frozenset()
    """Faults, by number, that do not happen."""
    make_house: Callable[[Node, Callable[[Node], None]], House] = BrokerHouse


class Failed(Exception):
    """A run in which something was wrong; the text says what."""


class World:
    """One run."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.choice = random.Random(options.seed)
        self.handling = Handling(options.mode)
        self.timeline = Timeline()
        self.history = History()
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        encoder = msgspec.msgpack.Encoder()
        decoder: Any = msgspec.msgpack.Decoder(ClusterMessage | StewardMessage | RingMail | RemoteMessage)
        self.network = Network(self.timeline, self.choice.randrange, encoder.encode, decoder.decode)
        self.names = [chr(ord("a") + number) for number in range(options.nodes)]
        self.nodes = {name: Node(self, name, f"{options.seed} {name}") for name in self.names}
        self.clients: list[Client] = []
        self.mishaps = Mishaps(self)
        self.timeline.on_crash = self.mishaps.crashed
        self.one_master = checkers.OneMaster()
        self.redelivery = checkers.RedeliveryIsMarked()
        self.minority = checkers.MinorityIsSilent()
        self.checkers: list[checkers.Checker] = [
            checkers.ConfirmedIsKept(), checkers.NothingIsInvented(), self.redelivery,
            checkers.OrderIsKept(), checkers.MirrorsAreEqual(), checkers.MetadataIsEqual(),
            checkers.EverythingSettles(), self.one_master, self.minority,
        ]  # fmt: skip
        self.schedule = faults.without(
            faults.draw(random.Random(f"{options.seed} faults"), self.names, options.load_ms, options.faults),
            set(options.left_out),
        )

    # -- what nodes and clients ask ---------------------------------------------------------------

    def first_state(self) -> Snapshot:
        """All nodes are founders, and know each other."""
        state = State()
        for name in self.names:
            state.apply(c.PutNode(records.Node(name, f"{name}:1", running=True)))
        state.apply(c.PutVhost(records.Vhost("/")))
        state.apply(c.PutUser(records.User("guest", tags=["administrator"])))
        state.apply(c.PutPermission(records.Permission("guest", "/", ".*", ".*", ".*")))
        state.apply(c.PutPolicy(records.Policy("/", "ha", ".*", definition=POLICIES[0])))
        return founded(self.names, 77, state.snapshot())

    def make_house(self, node: Node) -> House:
        """The real broker."""
        return self.options.make_house(node, self._turned)

    def serving(self) -> list[str]:
        """The nodes that take clients now."""
        return [
            name for name in self.names if self.broker(name) is not None and name not in self.network.frozen
        ]

    def broker(self, node: str) -> Broker | None:
        """What a client of a node talks to."""
        found = self.nodes[node]
        house = found.house if found.running else None
        return house.broker if isinstance(house, BrokerHouse) else None

    def nudge(self, node: str) -> None:
        """A client has said something."""
        self.nodes[node].wake()

    def _turned(self, node: Node) -> None:
        for client in self.clients:
            if client.node == node.name:
                client.poll()

    def deaf(self, from_ms: int, to_ms: int) -> None:
        """What a node said in between may not have been heard."""
        self.redelivery.excuse(from_ms, to_ms)

    def note(self, text: str) -> None:
        """Remember what happened."""
        self.trace.append(f"{self.timeline.now_ms:>8} {text}")

    # -- a run ----------------------------------------------------------------------------------

    def run(self) -> None:
        """All of it; raises Failed."""
        for node in self.nodes.values():
            node.start()
        self._until(lambda: self.serving() == self.names, FORM_MS, "the cluster did not form")
        self._start_clients()
        self.timeline.every(LOOK_MS, self._look)
        self.mishaps.plan(self.schedule, self.timeline.now_ms)
        self._pass(self.options.load_ms + 100)
        self._heal()
        self._judge()

    def _start_clients(self) -> None:
        queues = [f"q{number}" for number in range(self.options.queues)]
        for kind, prefix, count in (
            (Publisher, "p", self.options.publishers),
            (Consumer, "c", self.options.consumers),
        ):
            for number in range(count):
                name = f"{prefix}{number}"
                self.clients.append(kind(self, name, queues, random.Random(f"{self.options.seed} {name}")))

    def _pass(self, milliseconds: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + milliseconds)

    def _until(self, condition: Callable[[], bool], most_ms: int, what: str) -> None:
        end = self.timeline.now_ms + most_ms
        while not condition():
            if self.timeline.now_ms >= end:
                raise Failed(what)
            self._pass(50)

    def _look(self) -> None:
        """What can only be seen by looking again and again."""
        if self.handling.in_force(self.names) == PAUSE_MINORITY:
            self.minority.look(self.timeline.now_ms, self._outnumbered(), self.history)

    def _outnumbered(self) -> list[str]:
        found = []
        for name in self.names:
            seen = sum(name == other or self.network.linked(name, other) for other in self.names)
            if 2 * seen <= len(self.names):
                found.append(name)
        return found

    def _heal(self) -> None:
        self.note("all faults are over")
        self.mishaps.set_policy(POLICIES[0])
        for client in self.clients:
            if isinstance(client, Publisher):
                client.resting = True
        end = self.timeline.now_ms + SETTLE_MS
        while self.timeline.now_ms < end and (self.unsettled() or self._undrained()):
            self._pass(200)

    def _undrained(self) -> bool:
        return any(copy.bodies for copy in self.copies())

    def _judge(self) -> None:
        found = [wrong for checker in self.checkers for wrong in checker.finish(self)]
        if found:
            raise Failed("\n".join(found))

    # -- the end --------------------------------------------------------------------------------

    def copies(self) -> list[Copy]:
        """What every node holds of every queue."""
        return [
            copy
            for node in self.nodes.values()
            if node.running and isinstance(node.house, BrokerHouse)
            for copy in node.house.copies()
        ]

    def metadata(self) -> dict[str, bytes]:
        """Every node's metadata."""
        encode = msgspec.msgpack.Encoder(order="sorted").encode
        found = {}
        for name, node in self.nodes.items():
            if node.running:
                state = node.member.metadata.state
                found[name] = encode(
                    [sorted(map(encode, getattr(state, table).values())) for table in TABLES]
                )
        return found

    def unsettled(self) -> list[str]:
        """What is not as it should be."""
        found = [f"{name} does not serve" for name in self.names if name not in self.serving()]
        for node in self.nodes.values():
            if node.running:
                found += [
                    f"{node.name}: ring of {queue.name} is {queue.ring}, it waits for {queue.waits_for}"
                    for queue in node.member.metadata.state.queues.values()
                    if queue.waits_for or len(queue.ring.in_sync) < len(self.names)
                ]
        found += [f"{copy.queue} on {copy.node} is not drained" for copy in self.copies() if copy.bodies]
        return found[:6]
