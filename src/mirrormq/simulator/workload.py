"""Simulated clients: publishers that wait for confirms, consumers that acknowledge, on any serving node.

They behave like typical client programs. A client reconnects to any node after its connection breaks. A
publisher does not repeat publishes with unknown outcome, and continues with new messages. Each body names its
sender and its number, so that the checkers can trace every message.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from mirrormq.broker.broker import Broker
from mirrormq.client.client_events import (
    ChannelClosed,
    Closed,
    Confirm,
    ConsumerCancelled,
    Delivery,
    Event,
    GetReply,
    MethodReply,
)
from mirrormq.metadata import records
from mirrormq.simulator.run_history import (
    AcknowledgedRecord,
    ConfirmedRecord,
    DeliveredRecord,
    Released,
    RunHistory,
    SentRecord,
)
from mirrormq.simulator.simulated_client import SimulatedSession
from mirrormq.simulator.virtual_time import VirtualTime
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.properties import PERSISTENT, TRANSIENT, decode_properties

WINDOW = 8
"""Maximum of unconfirmed messages of a publisher."""

BURST = 3
"""Maximum of messages in one burst: publishers are slower than consumers, so that queues drain now and
then."""

PREFETCH = 5
REPLY_WAIT_MS = 15_000
"""Reply timeout: a client that waits longer disconnects and tries another node."""

PACE_MS = 250
"""Pace of a client: it acts about twice in this time."""

GRAVE = "m0"
REJECTED, EXPIRING = 0.2, 0.4
LIFETIME_MS = (100, 3000)
"""Shares of rejected and expiring messages of a queue with dead letters, and the range of their lifetime."""

PRIORITIES = 3
"""Highest priority of a queue with priorities."""


def durable(queue: str) -> bool:
    """Return whether a queue is durable. The first letter of a name is the kind: t0 and v0 are not durable,
    all others are; u0 and v0 have no mirrors, all others do."""
    return queue[0] not in "tv"


def mirrored(queue: str) -> bool:
    """Return whether a queue has mirrors."""
    return queue[0] not in "uv"


def mortal(queue: str) -> bool:
    """Return whether messages of a queue (d1) may be rejected or expire; they are dead-lettered to m0."""
    return queue[0] == "d"


def ranked(queue: str) -> bool:
    """Return whether messages of a queue (p1) have priorities."""
    return queue[0] == "p"


def single(queue: str) -> bool:
    """Return whether a queue (s1) has a single active consumer."""
    return queue[0] == "s"


def declarations(queue: str) -> list[bytes]:
    """Return the declarations of a queue and of the target of its dead letters."""
    arguments: Table = {}
    if ranked(queue):
        arguments["x-max-priority"] = Field("I", PRIORITIES)
    if single(queue):
        arguments["x-single-active-consumer"] = Field("t", True)
    if not mortal(queue):
        return [methods.encode_queue_declare(queue, durable=durable(queue), arguments=arguments)]
    arguments = {
        "x-dead-letter-exchange": Field("S", b""),
        "x-dead-letter-routing-key": Field("S", GRAVE.encode()),
    }
    return [
        methods.encode_queue_declare(GRAVE, durable=True, nowait=True),
        methods.encode_queue_declare(queue, durable=True, arguments=arguments),
    ]


class Hosts(Protocol):
    """Nodes from the clients' point of view."""

    timeline: VirtualTime
    history: RunHistory

    def serving(self) -> list[str]:
        """Return the nodes that take clients now."""

    def broker(self, node: str) -> Broker | None:
        """Return the broker of a node; None if it does not serve."""

    def nudge(self, node: str) -> None:
        """Schedule a turn of the node after client input."""


class SimulatedClient:
    """Client program with one connection at a time."""

    pace_ms = PACE_MS

    def __init__(self, hosts: Hosts, name: str, queues: Sequence[str], choice: random.Random) -> None:
        self.hosts = hosts
        self.name = name
        self.queues = queues
        self.choice = choice
        self.node = ""
        self.session: SimulatedSession | None = None
        self.resting = False
        """Flag: the client has nothing more to do."""
        self.broker: Broker | None = None
        self._heard_ms = 0
        self._connections = 0
        self._plan()

    def _plan(self) -> None:
        self.hosts.timeline.after(1 + self.choice.randrange(self.pace_ms), self._act)

    def _act(self) -> None:
        """Check the connection and act; called periodically."""
        self._plan()
        if self.session is not None and (self.session.over or self._is_gone()):
            self.drop()
        if self._is_tired():
            self.hang_up()
        if self.session is None:
            serving = self.hosts.serving()
            if serving and not self.resting:
                self._connect(self.choice.choice(serving))
        else:
            self.act()
            self.hosts.nudge(self.node)

    def _is_tired(self) -> bool:
        """Return whether the client gives up its connection. At the end of a run no client does: every
        request must be answered."""
        waits_ms = self.hosts.timeline.now_ms - self._heard_ms
        return self.session is not None and not self.resting and self.waiting() and waits_ms > REPLY_WAIT_MS

    def _is_gone(self) -> bool:
        return self.hosts.broker(self.node) is not self.broker

    def _connect(self, node: str) -> None:
        broker = self.hosts.broker(node)
        if broker is None:
            return
        self.node, self.broker = node, broker
        self._heard_ms = self.hosts.timeline.now_ms
        self._connections += 1
        self.session = SimulatedSession(broker, self._on_event)
        self.begin()
        self.hosts.nudge(node)

    def _on_event(self, event: Event) -> None:
        if self.session is None:
            return  # the client hung up at an earlier event of the same output
        self._heard_ms = self.hosts.timeline.now_ms
        if isinstance(event, Closed | ChannelClosed):
            self.closed(event.code, event.text)
            return
        self.on_event(event)

    def closed(self, code: int, text: str) -> None:
        """Reconnect after the node has closed the connection or the channel."""
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection. Unacknowledged messages are requeued if the node still runs."""
        if self.session is not None:
            if not self._is_gone():
                self.session.hang_up()
            self.drop()
            self.hosts.nudge(self.node)

    def drop(self) -> None:
        """Handle the loss of the connection."""
        self.session = None
        self.lost()

    def poll(self) -> None:
        """Read output at the end of the node's turn."""
        if self.session is not None and self.session.has_news and not self._is_gone():
            self.session.poll()

    def rest(self) -> None:
        """Stop acting."""
        self.resting = True

    # Hooks of each kind of client.

    def begin(self) -> None:
        """Handle a new connection."""

    def on_event(self, event: Event) -> None:
        """Handle a reply or a delivery."""

    def act(self) -> None:
        """Act once."""

    def waiting(self) -> bool:
        """Return whether the client waits for a reply that may become overdue."""
        return False

    def lost(self) -> None:
        """Handle the loss of the connection."""


class SimulatedPublisher(SimulatedClient):
    """Publisher that declares its queue, publishes, and counts confirms."""

    exchange = ""
    declare = staticmethod(declarations)

    def begin(self) -> None:
        self._ready = False
        self._tag = 0
        self._under_way: dict[int, str] = {}
        self.queue = self.choice.choice(self.queues)
        assert self.session is not None
        self.session.send(*self.declare(self.queue))

    def on_event(self, event: Event) -> None:
        assert self.session is not None
        match event:
            case MethodReply(_, methods.QueueDeclareOk()):
                self.session.send(methods.encode_confirm_select())
            case MethodReply(_, methods.ConfirmSelectOk()):
                self._ready = True
            case Confirm():
                self._settle(event)

    def _settle(self, confirm: Confirm) -> None:
        history, tags = self.hosts.history, [confirm.delivery_tag]
        if confirm.multiple:
            tags = [tag for tag in self._under_way if tag <= confirm.delivery_tag]
        for tag in tags:
            # Strict, unlike a real client: the broker must never confirm a message twice.
            body = self._under_way.pop(tag)
            if confirm.accepted:
                history.confirmed[body] = ConfirmedRecord(body, self.node, self.hosts.timeline.now_ms)
            else:
                history.refused.add(body)

    def act(self) -> None:
        assert self.session is not None
        if not self._ready or self.resting:
            return
        history = self.hosts.history
        for _ in range(self.choice.randint(0, min(BURST, WINDOW - len(self._under_way)))):
            number = len(history.sent) + 1
            body = f"{self.queue} {self.name} {number}"
            mode = PERSISTENT if mortal(self.queue) or self.choice.random() < 0.8 else TRANSIENT
            now = self.hosts.timeline.now_ms
            lasting = mode == PERSISTENT and durable(self.queue)
            rank = self.choice.randint(0, PRIORITIES) if ranked(self.queue) else 0
            channel = f"{self.name}/{self._connections}"
            history.sent[body] = SentRecord(channel, number, self.queue, lasting, now, rank)
            self._tag += 1
            self._under_way[self._tag] = body
            expires = mortal(self.queue) and self.choice.random() < EXPIRING
            lifetime = str(self.choice.randint(*LIFETIME_MS)) if expires else ""
            self.session.publish(self.queue, body.encode(), mode, lifetime, rank, exchange=self.exchange)

    def waiting(self) -> bool:
        return not self._ready or bool(self._under_way)

    @property
    def unanswered(self) -> int:
        """Number of unconfirmed publishes on an open connection."""
        return len(self._under_way) if self.session is not None else 0


class SimulatedConsumer(SimulatedClient):
    """Consumer of a queue that acknowledges after a while, sometimes requeues, sometimes disconnects."""

    prefetch = PREFETCH
    _let_go = 0
    """Number of the last connection that has ended, or whose node the others have declared lost."""

    def begin(self) -> None:
        self._ready = False
        self._held: deque[tuple[int, str]] = deque()
        self.queue = self.choice.choice(self.queues)
        assert self.session is not None
        self.session.send(
            *declarations(self.queue),
            methods.encode_basic_qos(0, self.prefetch, False),
            methods.encode_basic_consume(self.queue),
        )

    def on_event(self, event: Event) -> None:
        match event:
            case MethodReply(_, methods.BasicConsumeOk()):
                self._ready = True
            case ConsumerCancelled():
                self.closed(0, "cancelled")
            case Delivery():
                self.take(event)

    def take(self, event: Delivery | GetReply) -> None:
        """Record a received message."""
        body = event.body.decode()
        headers = decode_properties(event.properties, 0).headers or {}
        delivered = DeliveredRecord(
            body,
            self.name,
            self._connections,
            event.redelivered,
            "x-orphaned-from" in headers,
            "x-death" in headers,
            self.node,
            self.hosts.timeline.now_ms,
            "x-shovelled" in headers or "x-received-from" in headers,
        )
        self.hosts.history.delivered.append(delivered)
        if self._let_go < self._connections:
            self.hosts.history.held.append(delivered)
        self._held.append((event.delivery_tag, body))

    def act(self) -> None:
        for _ in range(self.choice.randint(0, len(self._held))):
            assert self.session is not None
            if self.choice.random() < 0.05:
                self._give_back(requeue=True)
            elif mortal(self.queue) and self.choice.random() < REJECTED:
                self._give_back(requeue=False)
            else:
                self.acknowledge()
        if self.choice.random() < 0.01:
            self.hang_up()

    def _give_back(self, *, requeue: bool) -> None:
        assert self.session is not None
        tag, body = self._held.popleft()
        self.hosts.history.held.append(Released(self.name, self._connections, body))
        self.session.send(methods.encode_basic_nack(tag, False, requeue))

    def lost(self) -> None:
        self.let_go()

    def notice(self, nodes: Mapping[str, records.Node]) -> None:
        """Release the holds of an ended connection from that moment on, also if its client notices later. A
        connection to a lost node counts as ended; `nodes` are the node records of another node."""
        if self._let_go == self._connections or self.session is None or self.broker is None:
            return
        node = nodes.get(self.node)
        given_up = node is None or not node.running or node.incarnation > self.broker.incarnation
        if given_up or self.session.over or self._is_gone():
            self.let_go()

    def let_go(self) -> None:
        if self._let_go < self._connections:
            self._let_go = self._connections
            self.hosts.history.held.append(Released(self.name, self._connections))

    def acknowledge(self) -> None:
        """Acknowledge the oldest held message."""
        assert self.session is not None
        tag, body = self._held.popleft()
        now = self.hosts.timeline.now_ms
        self.hosts.history.acknowledged[body] = AcknowledgedRecord(body, self.node, now)
        self.session.send(methods.encode_basic_ack(tag, False))

    def rest(self) -> None:
        super().rest()
        self.hang_up()

    def waiting(self) -> bool:
        return not self._ready
