"""Random workload of clients on one node, with the permitted and required state after a crash.

The clients know only what they have read. This implies, for every persistent message:

    confirmed, never settled                 exists, once, in its queue, in order
    settled, and a later confirm was read    does not exist: the sync that confirmed covered the ack
    settled, nothing read since              may exist or not
    published, not confirmed                 may exist or not
    delivered, and the mark is on disk       is marked redelivered when it is delivered again

A transient message does not exist, a deleted queue does not exist, and no message exists that no client
sent. The mark of a delivery is on disk when a later confirm was read, or when only the process has died.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import Client, Node, Received

QUEUES = ("a", "b", "p")
FANOUT = "amq.fanout"
PREFETCH = 6
Way = Literal["kill", "power"]


@dataclass
class Sent:
    """One message in one queue, as far as the clients know."""

    body: bytes
    order: int
    persistent: bool
    confirmed: bool = False
    settled: bool = False
    settled_for_sure: bool = False
    delivered: bool = False
    delivered_for_sure: bool = False


@dataclass
class QueueModel:
    """One queue, as far as the clients know."""

    exists: bool | None = False
    """Whether the queue exists; None while a declare or delete has no reply."""
    sent: dict[bytes, Sent] = field(default_factory=dict)


class Workload:
    """Publishes with confirms, consumes, settles, purges, deletes and restarts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.queues = {name: QueueModel() for name in QUEUES}
        self.count = 0
        self.open: dict[int, list[Sent]] = {}
        """Publishes that were not confirmed, by number."""
        self.numbers = 0
        self.held: list[tuple[int, Sent]] = []
        """Deliveries that were not settled, by tag."""

    # -- running --------------------------------------------------------------------------------

    def run(self, node: Node, operations: int) -> None:
        """Connect and run random operations; a crash may end it anywhere."""
        self.node = node
        self.begin()
        kinds = [self.publish] * 6 + [self.settle] * 5 + [self.get] * 3 + [self.fan_out] * 2
        kinds += [self.housekeeping, self.purge, self.delete, self.restart]
        for _ in range(operations):
            self.random.choice(kinds)()
            self.listen()

    def begin(self) -> None:
        """Open connections: one publishes, one consumes from queue a and gets from the others."""
        self.numbers = 0
        self.open, self.held = {}, []
        self.publisher, self.consumer = self.node.connect(), self.node.connect()
        self.publisher.send(methods.encode_confirm_select())
        self.consumer.send(methods.encode_basic_qos(0, PREFETCH, False))
        self.listen()
        for name in QUEUES:
            self.declare(name)

    def declare(self, name: str) -> None:
        """Declare, bind and consume."""
        model = self.queues[name]
        if not model.exists:
            model.exists = None
        arguments = {"x-max-priority": Field("I", 3)} if name == "p" else {}
        answer = self.publisher.call(methods.encode_queue_declare(name, durable=True, arguments=arguments))
        assert isinstance(answer, methods.QueueDeclareOk)
        model.exists = True
        if name != "b":
            self.publisher.call(methods.encode_queue_bind(name, FANOUT, ""))
        if name == "a":
            self.consumer.send(methods.encode_basic_consume("a", f"c{self.random.random()}"))
        self.listen()

    # -- client operations ----------------------------------------------------------------------

    def publish(self) -> None:
        name = self.random.choice(QUEUES)
        persistent = self.random.random() < 0.8
        bodies = self._new(self.random.randrange(1, 5), persistent, [name])
        self.publisher.publish(name, *bodies, persistent=persistent, priority=self.random.randrange(4))

    def fan_out(self) -> None:
        bodies = self._new(self.random.randrange(1, 3), True, ["a", "p"])
        self.publisher.publish("", *bodies, exchange=FANOUT, persistent=True)

    def _new(self, count: int, persistent: bool, queues: list[str]) -> list[bytes]:
        bodies = []
        for _ in range(count):
            self.count += 1
            self.numbers += 1
            body = b"%d " % self.count + b"x" * self.random.randrange(80)
            copies = [Sent(body, self.count, persistent) for _ in queues]
            for name, sent in zip(queues, copies, strict=True):
                self.queues[name].sent[body] = sent
            self.open[self.numbers] = copies
            bodies.append(body)
        return bodies

    def get(self) -> None:
        self.consumer.send(methods.encode_basic_get(self.random.choice(("b", "p")), False))

    def settle(self) -> None:
        if not self.held:
            return
        at = self.random.randrange(len(self.held))
        if self.random.random() < 0.3:
            tag, sent = self.held.pop(at)
            self.consumer.send(methods.encode_basic_nack(tag, False, True))
            return
        multiple = self.random.random() < 0.5
        tag = self.held[at][0]
        chosen = self.held[: at + 1] if multiple else [self.held[at]]
        for _, sent in chosen:
            sent.settled = True
        self.held = [entry for entry in self.held if entry not in chosen]
        self.consumer.send(methods.encode_basic_ack(tag, multiple))

    def purge(self) -> None:
        name = self.random.choice(QUEUES)
        held = {sent.body for _, sent in self.held if sent is self.queues[name].sent.get(sent.body)}
        for sent in self.queues[name].sent.values():
            sent.settled = sent.settled or sent.body not in held
        self.publisher.send(methods.encode_queue_purge(name))

    def delete(self) -> None:
        name = self.random.choice(QUEUES)
        model = self.queues[name]
        for sent in model.sent.values():
            sent.settled = True
        model.exists = None
        self.publisher.send(methods.encode_queue_delete(name))
        self.listen()
        model.exists = False
        gone = list(model.sent.values())
        self.held = [entry for entry in self.held if not any(entry[1] is sent for sent in gone)]
        model.sent = {}
        self.declare(name)

    def housekeeping(self) -> None:
        self.node.journal.housekeeping(4_000)

    def restart(self) -> None:
        """Restart after a graceful stop: everything written is synced."""
        self.listen()
        self.node.restart("stop")
        self._synced()
        for model in self.queues.values():
            model.sent = {body: sent for body, sent in model.sent.items() if sent.persistent}
        self.begin()

    # -- client input ---------------------------------------------------------------------------

    def listen(self) -> None:
        """Read all output of the node; the clients know only what they read here."""
        if self.random.random() < 0.5:
            self.node.broker.turn(commit=False)
        heard = self.consumer.read()
        reported = self.publisher.read()
        for received in reported:
            self._confirmed(received.method)
        for received in heard + self.consumer.read():
            self._delivered(received)

    def _confirmed(self, method: Any) -> None:
        if not isinstance(method, methods.BasicAck):
            return
        first = min(self.open) if method.multiple else method.delivery_tag
        copies = [
            sent for number in range(first, method.delivery_tag + 1) for sent in self.open.pop(number, [])
        ]
        for sent in copies:
            sent.confirmed = True
        if any(sent.persistent for sent in copies):
            self._synced()

    def _delivered(self, received: Received) -> None:
        method = received.method
        if not isinstance(method, methods.BasicDeliver | methods.BasicGetOk):
            return
        assert received.body is not None
        possible = ("a",) if isinstance(method, methods.BasicDeliver) else ("b", "p")
        (sent,) = [
            self.queues[name].sent[received.body]
            for name in possible
            if received.body in self.queues[name].sent
        ]
        assert not sent.settled, f"{sent} was delivered after it had been settled"
        assert method.redelivered or not sent.delivered, f"{sent} came twice and does not say so"
        sent.delivered = True
        self.held.append((method.delivery_tag, sent))

    def _synced(self) -> None:
        """Record that everything the clients had sent and read before is on disk."""
        for model in self.queues.values():
            for sent in model.sent.values():
                sent.settled_for_sure = sent.settled
                sent.delivered_for_sure = sent.delivered

    # -- after the crash ------------------------------------------------------------------------

    def check(self, node: Node, way: Way) -> None:
        """Compare all queues with the model, as a client."""
        client = node.connect()
        for name, model in self.queues.items():
            there = name in node.broker.vhosts["/"].queues
            assert model.exists is None or there == model.exists, f"queue {name}"
            found = self._take_all(client, name) if there else []
            self._check_queue(name, model, found, way)
        node.restart("stop")
        assert all(node.counts(name) == (0, 0) for name in node.broker.vhosts["/"].queues)

    def _take_all(self, client: Client, name: str) -> list[tuple[bytes, bool]]:
        found = []
        while (message := client.get(name)) is not None:
            found.append((message.body or b"", message.method.redelivered))
            client.send(methods.encode_basic_ack(message.method.delivery_tag, False))
        return found

    def _check_queue(self, name: str, model: QueueModel, found: list[tuple[bytes, bool]], way: Way) -> None:
        bodies = [body for body, _ in found]
        assert len(set(bodies)) == len(bodies), f"{name}: a message is there twice"
        for body, redelivered in found:
            sent = model.sent.get(body)
            assert sent is not None, f"{name}: {body!r} is not of this queue"
            assert sent.persistent, f"{name}: {sent} is transient"
            assert not sent.settled_for_sure, f"{name}: {sent} came back"
            known = sent.delivered if way == "kill" else sent.delivered_for_sure
            assert redelivered or not known, f"{name}: {sent} does not say that it was delivered"
        if model.exists:
            lost = [s for s in model.sent.values() if s.persistent and s.confirmed and not s.settled]
            lost = [sent for sent in lost if sent.body not in bodies]
            assert not lost, f"{name}: confirmed and lost: {lost}"
        if name != "p":
            orders = [model.sent[body].order for body in bodies]
            assert orders == sorted(orders), f"{name}: out of order"
