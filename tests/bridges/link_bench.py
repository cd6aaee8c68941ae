"""Link between two brokers in this process, with byte streams that a test moves and cuts at will.

bench = LinkBench(plan)
bench.settle()                 moves bytes until nothing changes
bench.move("source up", 10)    moves at most ten octets of one stream
bench.cut(Side.SOURCE)         breaks the connection to the source between any two octets
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.auth.client_peer import Peer
from mirrormq.bridges.link import Link, Phase, Side
from mirrormq.bridges.link_plan import Destination, LinkPlan, Outgoing, Source, Subscription
from mirrormq.bridges.link_setup import declared_queue
from mirrormq.client.amqp_uri import AmqpUri, parse_amqp_uri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Closed, CloseReason, Delivery, Opened
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.connections.connection import Connection
from tests.harness import Client, Node

SOURCE_URI = parse_amqp_uri("amqp://source")
DESTINATION_URI = parse_amqp_uri("amqp://destination")
SETTLE_ROUNDS_MAX = 10_000


class Wire:
    """Connection between the link and a broker, with the octets on their way."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.client = ClientConnection(ClientOptions(heartbeat_s=None))
        self.server = Connection(node.broker, Peer("127.0.0.1", 1))
        self.up = b""
        self.down = b""

    def collect(self) -> None:
        """Take the output of both ends."""
        self.up += self.client.take_output()
        self.server.resume()
        self.node.turn()
        self.down += b"".join(self.server.take_output())
        self.node.broker.writing.pop(self.server, None)


class LinkBench:
    """Host of one link; implements `LinkHost`."""

    def __init__(self, plan: LinkPlan) -> None:
        self.source, self.destination = Node(name="source@host"), Node(name="destination@host")
        self.nodes = {Side.SOURCE: self.source, Side.DESTINATION: self.destination}
        self.wires: dict[Side, Wire] = {}
        self.link = Link(plan, self)
        self.finished: bool | None = None
        self.reading = True
        self.accepts_output = True
        self.refuse: dict[Side, Closed] = {}
        """Sides that cannot be connected now."""
        self.tried: list[AmqpUri] = []
        self.now_ms = 0

    # -- host -----------------------------------------------------------------------------------------

    def connect(self, side: Side, uri: AmqpUri) -> None:
        self.tried.append(uri)
        if side not in self.refuse:
            self.wires[side] = Wire(self.nodes[side])

    def hang_up(self) -> None:
        for wire in self.wires.values():
            wire.server.lost()
            wire.node.turn()
        self.wires = {}

    def read_source(self, reading: bool) -> None:
        self.reading = reading

    def writable(self) -> bool:
        return self.accepts_output

    def ended(self, finished: bool) -> None:
        self.finished = finished

    # -- moves ----------------------------------------------------------------------------------------

    def start(self) -> None:
        self.link.start(self.now_ms)

    def step(self, side: Side, upwards: bool, octets: int = 1 << 30) -> bool:
        """Move octets of one stream; return whether there were any."""
        if self.link.phase is Phase.CONNECTING:
            for refused, closed in self.refuse.items():
                if self.tried[-1].host == refused.value:
                    self.link.lost(refused, closed, self.now_ms)
        wire = self.wires.get(side)
        if wire is None:
            return False
        wire.collect()
        if upwards:
            data, wire.up = wire.up[:octets], wire.up[octets:]
            if data:
                wire.server.receive(data)
        elif side is Side.SOURCE and not self.reading:
            return False
        else:
            data, wire.down = wire.down[:octets], wire.down[octets:]
            if data:
                self._received(side, wire, data)
        if self.wires.get(side) is wire:
            wire.collect()
        return bool(data)

    def _received(self, side: Side, wire: Wire, data: bytes) -> None:
        events = wire.client.receive(data)
        opened = [event for event in events if isinstance(event, Opened)]
        if opened:
            self.link.connected(side, wire.client, self.now_ms)
            events = [event for event in events if event not in opened]
        if events:
            self.link.receive(side, events, self.now_ms)

    def cut(self, side: Side) -> None:
        """Break a connection: the octets on their way are lost."""
        wire = self.wires.pop(side, None)
        if wire is not None:
            wire.server.lost()
            wire.node.turn()
            self.link.lost(side, Closed(CloseReason.LOST, "cut"), self.now_ms)

    def settle(self) -> None:
        """Move everything until nothing changes."""
        for _ in range(SETTLE_ROUNDS_MAX):
            moved = [
                self.step(side, upwards)
                for side in (Side.SOURCE, Side.DESTINATION)
                for upwards in (True, False)
            ]
            if not any(moved):
                return
        raise AssertionError("the link does not come to rest")

    def advance(self, milliseconds: int) -> None:
        """Let time pass, then settle."""
        self.now_ms += milliseconds
        self.link.tick(self.now_ms)
        self.settle()


def filled(bench: LinkBench, count: int, queue: str = "from") -> Client:
    """Publish numbered persistent messages to the source's queue."""
    client = bench.source.connect()
    if queue not in bench.source.broker.vhosts["/"].queues:
        from mirrormq.wire import methods

        client.call(methods.encode_queue_declare(queue, durable=True))
    client.publish(queue, *[b"%d" % number for number in range(count)], persistent=True)
    client.read()
    return client


def drained(node: Node, queue: str) -> list[int]:
    """Return the numbers of the messages in a queue, first to last."""
    client = node.connect()
    try:
        return [int(body) for body in client.drain(queue)]
    finally:
        client.lose()
        node.turn()


def to_queue(queue: str) -> Callable[[Delivery, ClientConnection], Outgoing | None]:
    """Return the transform that sends every message to one queue."""
    return lambda delivery, _source: Outgoing("", queue, delivery.properties, delivery.body)


def plan_between_queues(**options: object) -> LinkPlan:
    """Return a plan from queue `from` to queue `to`."""

    def source_setup(_connection: ClientConnection):  # type: ignore[no-untyped-def]
        reply = yield from declared_queue("from", {})
        return Subscription(reply.queue, reply.message_count)

    def destination_setup(_connection: ClientConnection):  # type: ignore[no-untyped-def]
        yield from declared_queue("to", {})

    prefetch = options.pop("prefetch", 10)
    mandatory = options.pop("mandatory", True)
    assert isinstance(prefetch, int) and isinstance(mandatory, bool)
    return LinkPlan(
        "test",
        Source((SOURCE_URI,), source_setup, prefetch),
        Destination((DESTINATION_URI,), destination_setup, mandatory),
        to_queue("to"),
        **options,  # type: ignore[arg-type]
    )
