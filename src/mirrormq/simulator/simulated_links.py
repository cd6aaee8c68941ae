"""Links of one application of a simulated node: the real link logic over simulated connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.bridges.assigned_links import AssignedLinks
from mirrormq.bridges.federation_exchange import ExchangeLink
from mirrormq.bridges.federation_links import QUEUE_LINK
from mirrormq.bridges.link import Link, Side
from mirrormq.bridges.link_kinds import KINDS, LinkKind
from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.bridges.link_plan import LinkContext
from mirrormq.broker.broker import Broker
from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_events import Delivery, Event, Opened
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.metadata import commands as c
from mirrormq.metadata.changes import Change
from mirrormq.metadata.link_records import Link as LinkRecord
from mirrormq.metadata.records import Binding, Parameter
from mirrormq.simulator.link_sockets import LinkSocket
from mirrormq.simulator.run_history import ReceivedRecord
from mirrormq.simulator.simulated_node import SimulatedNode

if TYPE_CHECKING:
    from mirrormq.simulator.link_run import LinkRun

PREFETCH = 5
RECONNECT_DELAY_S = 0.2
"""Short values: a run has some hundred messages and takes seconds."""


class SimulatedShovel(NamedTuple):
    """Shovel of a run."""

    mode: str
    """Acknowledgement mode."""
    source: str
    destination: str
    """Queues; nothing else publishes to the destination."""
    source_node: str = ""
    destination_node: str = ""
    """Nodes of the URIs; empty: inside the node that runs the link."""

    @property
    def kind(self) -> str:
        return SHOVEL

    @property
    def name(self) -> str:
        return f"{self.source}-{self.destination}"

    def definition(self, _policy: dict[str, Any]) -> list[c.Command]:
        """Return the commands that define the shovel."""
        value = {
            "src-uri": f"amqp://{self.source_node}",
            "src-queue": self.source,
            "src-prefetch-count": PREFETCH,
            "dest-uri": f"amqp://{self.destination_node}",
            "dest-queue": self.destination,
            "dest-add-forward-headers": True,
            "ack-mode": self.mode,
            "reconnect-delay": RECONNECT_DELAY_S,
        }
        return [c.PutParameter(Parameter("/", SHOVEL, self.name, value))]


class SimulatedLinks:
    """Links of one application. `broker` identifies it."""

    def __init__(self, node: SimulatedNode, broker: Broker, incarnation: int, run: LinkRun) -> None:
        self.node = node
        self.broker = broker
        self.run = run
        self._planned = False
        self._metadata = node.member.metadata
        self._links: AssignedLinks[SimulatedLinkRunner] = AssignedLinks(
            self._metadata.state,
            (node.name, incarnation),
            KINDS,
            lambda record, kind, definition: SimulatedLinkRunner(self, record, kind, definition),
        )
        self._metadata.listeners.append(self._follow)
        run.hosts(self)
        self._compare_soon()

    def stop(self) -> None:
        """End all links at once."""
        self.run.hosts_no_more(self)
        self._metadata.listeners.remove(self._follow)
        for runner in self._links.runners.values():
            runner.hang_up()
            runner.over = True
        self._links.runners.clear()

    def _follow(self, change: Change) -> None:
        if AssignedLinks.concerns(change):
            self._compare_soon()
        elif isinstance(change.record, Binding):
            for runner in self._links.exchange_links(change.record):
                self.later(0, runner.propagate_bindings)

    def serve_demand(self, demanded: bool) -> None:
        """Let queue links consume while their queues need messages."""
        for runner in self._links.runners.values():
            runner.consume(demanded)

    def _compare_soon(self) -> None:
        if not self._planned:
            self._planned = True
            self.later(0, self._compare)

    def _compare(self) -> None:
        self._planned = False
        self._links.compare()

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action of this application after a delay, if the application still runs then."""
        self.node.later(delay_ms, lambda: action() if self._serves() else None)

    def _serves(self) -> bool:
        return self.run.sockets.hosts.broker(self.node.name) is self.broker

    def ended(self, runner: SimulatedLinkRunner, finished: bool) -> None:
        """Start the next runner of the link, if there is one."""
        self._links.over(runner, finished)
        self._compare_soon()


class SimulatedLinkRunner:
    """Runner of one link. Implements `LinkHost` and `AssignedRunner`."""

    def __init__(self, owner: SimulatedLinks, record: LinkRecord, kind: LinkKind, definition: Any) -> None:
        self._owner = owner
        self.node = owner.node
        self.record = record
        self.definition = definition
        self.over = False
        self._sockets: dict[Side, LinkSocket] = {}
        self._wake = 0
        """Number of the last planned wake-up: only that one counts."""
        context = LinkContext(
            owner.node.member.metadata.state, "simulated", lambda: self._now_ms // 1000, lambda: (0, 0)
        )
        self.link = Link(kind.plan(record.key, definition, context), self)

    @property
    def lives(self) -> bool:
        """Whether the runner may still act."""
        return not self.over and self._owner.run.sockets.hosts.broker(self.node.name) is self._owner.broker

    @property
    def _now_ms(self) -> int:
        return self._owner.run.sockets.hosts.timeline.now_ms

    def start(self) -> None:
        self._owner.run.begins(self)
        self._act(lambda link: link.start(self._now_ms))
        self.consume(self._owner.run.demanded)

    def consume(self, demanded: bool) -> None:
        """Let a queue link consume or stop consuming."""
        if self.record.kind == QUEUE_LINK and not self.over:
            self._act(lambda link: link.consume(demanded))

    def propagate_bindings(self) -> None:
        """Pass changed bindings of the federated exchange on to the upstream."""

        def pass_on(link: Link) -> None:
            if isinstance(link.plan.extension, ExchangeLink):
                link.plan.extension.bindings_changed()

        if not self.over:
            self._act(pass_on)

    def stop(self, *, removed: bool = False) -> None:
        self._act(lambda link: link.stop(self._now_ms))

    # -- LinkHost ---------------------------------------------------------------------------------

    def connect(self, side: Side, uri: AmqpUri) -> None:
        owner = self._owner
        options = ClientOptions.of_uri(uri, "link", heartbeat_s=None)

        def handle(events: list[Event]) -> None:
            if self._sockets.get(side) is socket and not self.over:
                self._receive(side, socket, events)

        near = (self.node.name, owner.broker)
        socket = LinkSocket(owner.run.sockets, near, uri.host or self.node.name, options, handle)
        self._sockets[side] = socket

    def _receive(self, side: Side, socket: LinkSocket, events: list[Event]) -> None:
        if any(isinstance(event, Opened) for event in events):
            self._act(lambda link: link.connected(side, socket.client, self._now_ms))
        rest: list[Event] = [event for event in events if not isinstance(event, Opened)]
        history = self._owner.run.history
        for event in rest:
            if isinstance(event, Delivery):
                received = ReceivedRecord(event.body.decode(), self.record.name, self._now_ms)
                history.received.append(received)
                history.moved_ms.setdefault(received.body, received.at_ms)
        if rest:
            self._act(lambda link: link.receive(side, rest, self._now_ms))

    def hang_up(self) -> None:
        sockets, self._sockets = self._sockets, {}
        for socket in sockets.values():
            socket.abort()
        self._owner.run.history.broken_ms.append(self._now_ms)

    def read_source(self, reading: bool) -> None:
        """Keep reading: the prefetch count bounds what a run sends."""

    def writable(self) -> bool:
        return True

    def ended(self, finished: bool) -> None:
        self.over = True
        self.hang_up()
        self._owner.ended(self, finished)

    # -- internals --------------------------------------------------------------------------------

    def _act(self, action: Callable[[Link], None]) -> None:
        action(self.link)
        for socket in list(self._sockets.values()):
            socket.flush()
        self._wake += 1
        wake_ms = self.link.wake_ms
        if wake_ms is not None:
            number = self._wake
            self._owner.later(max(0, wake_ms - self._now_ms), lambda: self._tick(number))

    def _tick(self, number: int) -> None:
        if number == self._wake and not self.over:
            self._act(lambda link: link.tick(self._now_ms))
