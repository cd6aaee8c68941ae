"""Links that are cut at any moment: nothing is lost and nothing comes twice while both nodes live."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from mirrormq.wire import methods
from tests.harness import Received
from tests.remote.cluster import Cluster, RemoteTestClient

STEPS = 1500


class Worker:
    """A client that publishes numbered messages, or consumes and settles at random, and keeps the books."""

    def __init__(self, world: World, node: str, *, publishing: bool) -> None:
        self.world = world
        self.node = node
        self.consuming = False
        self.name = f"{node}{len(world.workers)}"
        self.client: RemoteTestClient = world.cluster.connect(node)
        self.published = 0
        self.confirmed: set[int] = set()
        self.unsettled: list[int] = []
        self.bodies: dict[int, bytes] = {}
        self.seen: list[bytes] = []
        """First deliveries, in order."""
        if publishing:
            self.client.send(methods.encode_confirm_select())

    def consume(self, prefetch: int) -> None:
        self.client.send(methods.encode_basic_qos(0, prefetch), methods.encode_basic_consume("q", "c"))
        self.consuming = True

    def cancel_or_consume(self, chance: random.Random) -> None:
        """Stop consuming, or begin again."""
        if not self.consuming:
            self.consume(chance.choice([0, 1, 5, 50]))
        else:
            self.client.send(methods.encode_basic_cancel("c", False))
            self.consuming = False

    def get(self) -> None:
        self.client.send(methods.encode_basic_get("q"))

    def lose(self) -> None:
        """The client is gone, and another comes: what it held goes back, also what it has not seen. Not while
        its channel waits for an answer: then acknowledgements that it has sent may be lost with it."""
        if self.client.connection.channels[1].waiting.count:
            return
        self.client.lose()
        for tag in self.unsettled:
            self.world.given_back[self.bodies[tag]] += 1
        self.unsettled.clear()
        self.client = self.world.cluster.connect(self.node)
        self.consume(3)

    def publish(self, count: int, persistent: bool) -> None:
        first = self.published + 1
        self.published += count
        bodies = [b"%s %d" % (self.name.encode(), number) for number in range(first, first + count)]
        self.world.expected.update(bodies)
        self.client.publish("q", *bodies, persistent=persistent)

    def look(self) -> None:
        """Read what is there."""
        self.client.collect()
        unread, self.client._unread = self.client._unread, []
        for received in unread:
            self._hear(received)

    def _hear(self, received: Received) -> None:
        method = received.method
        if isinstance(method, methods.BasicAck):
            first = min(set(range(1, self.published + 1)) - self.confirmed) if method.multiple else 0
            numbers = range(first, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
            self.confirmed.update(numbers)
        elif isinstance(method, methods.BasicDeliver | methods.BasicGetOk):
            assert received.body is not None
            self.world.delivered(received.body, method.redelivered)
            if not method.redelivered:
                self.seen.append(received.body)
            self.unsettled.append(method.delivery_tag)
            self.bodies[method.delivery_tag] = received.body
        else:
            assert isinstance(
                method, methods.ConfirmSelectOk | methods.BasicQosOk | methods.BasicConsumeOk
                | methods.BasicGetEmpty | methods.BasicCancelOk,
            ), method  # fmt: skip

    def settle(self, chance: random.Random) -> None:
        """Answer for one delivery, or for many."""
        if not self.unsettled:
            return
        if chance.random() < 0.3:
            tag = self.unsettled.pop(chance.randrange(len(self.unsettled)))
            if chance.random() < 0.5:
                self.client.send(methods.encode_basic_nack(tag, False, True))
                self.world.given_back[self.bodies[tag]] += 1
            else:
                self.client.send(methods.encode_basic_ack(tag, False))
                self.world.acknowledged[self.bodies[tag]] += 1
            return
        tag = chance.choice(self.unsettled)
        for one in [each for each in self.unsettled if each <= tag]:
            self.unsettled.remove(one)
            self.world.acknowledged[self.bodies[one]] += 1
        self.client.send(methods.encode_basic_ack(tag, True))


class World:
    """Three nodes, the queue on b, workers on all of them, and what must be true of it."""

    def __init__(self, seed: int, consumers: str) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster("a", "b", "c")
        self.cluster.declare("q", "b")
        self.workers: list[Worker] = []
        self.expected: set[bytes] = set()
        self.acknowledged: Counter[bytes] = Counter()
        self.given_back: Counter[bytes] = Counter()
        self.deliveries: Counter[bytes] = Counter()
        self.publishers = [self._worker(node, publishing=True) for node in ("a", "c", "b")]
        self.consumers = [self._worker(node, publishing=False) for node in consumers]
        for worker in self.consumers:
            worker.consume(self.chance.choice([0, 1, 5, 50]))

    def _worker(self, node: str, *, publishing: bool) -> Worker:
        worker = Worker(self, node, publishing=publishing)
        self.workers.append(worker)
        return worker

    def delivered(self, body: bytes, redelivered: bool) -> None:
        """A message is with one consumer at a time, and again only if it was given back, marked."""
        self.deliveries[body] += 1
        assert body in self.expected
        assert not self.acknowledged[body], "acknowledged, and here it is again"
        assert self.deliveries[body] == self.given_back[body] + 1, "with two consumers at once"
        if self.deliveries[body] > 1:
            assert redelivered

    def step(self) -> None:
        chance, cluster = self.chance, self.cluster
        one, other = sorted(chance.choice(list(cluster.links)))
        sender, receiver = chance.sample((one, other), 2)
        actions: list[tuple[int, Callable[[], object]]] = [
            (10, lambda: self._publish()),
            (40, lambda: chance.choice(self.consumers).settle(chance)),
            (60, lambda: cluster.carry(sender, receiver, chance.randint(1, 3))),
            (60, lambda: chance.choice(cluster.living()).node.broker.turn(chance.random() < 0.7)),
            (40, lambda: chance.choice(self.workers).look()),
            (3, lambda: cluster.cut(one, other)),
            (2, lambda: chance.choice(self.consumers).cancel_or_consume(chance)),
            (4, lambda: chance.choice(self.consumers).get()),
            (1, lambda: chance.choice(self.consumers).lose()),
            (6, lambda: self._join(one, other)),
        ]
        weights = [weight for weight, _ in actions]
        chance.choices([action for _, action in actions], weights)[0]()

    def _publish(self) -> None:
        self.chance.choice(self.publishers).publish(
            self.chance.choice([1, 1, 3, 20]), self.chance.random() < 0.5
        )

    def _join(self, one: str, other: str) -> None:
        if not self.cluster.link(one, other).up:
            self.cluster.join(one, other)

    def finish(self) -> None:
        """Heal, and let consumers take everything."""
        for pair in list(self.cluster.links):
            self._join(*sorted(pair))
        for worker in self.consumers:
            if not worker.consuming:
                worker.consume(10)
        for _ in range(10_000):
            self.cluster.settle()
            for worker in self.workers:
                worker.look()
            busy = [worker for worker in self.consumers if worker.unsettled]
            for worker in busy:
                for tag in worker.unsettled:
                    self.acknowledged[worker.bodies[tag]] += 1
                worker.client.send(methods.encode_basic_ack(worker.unsettled[-1], True))
                worker.unsettled.clear()
            if not busy and self.cluster.counts("q") == (0, 0):
                return
        raise AssertionError(f"messages stay behind: {self.cluster.counts('q')}")

    def check(self) -> None:
        assert set(self.acknowledged) == self.expected, "lost, or never published"
        assert set(self.acknowledged.values()) <= {1}
        for worker in self.publishers:
            assert worker.confirmed == set(range(1, worker.published + 1))
        for member in self.cluster.living():
            assert member.remote.unsettled_bytes == 0


@pytest.mark.parametrize("consumers", ["a", "c", "abc", "aacc"])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_or_doubled_across_cuts(seed: int, consumers: str) -> None:
    world = World(seed, consumers)
    for _ in range(STEPS):
        world.step()
    world.finish()
    world.check()
    if len(consumers) == 1:
        (consumer,) = world.consumers
        for worker in world.publishers:
            own = [body for body in consumer.seen if body.startswith(worker.name.encode() + b" ")]
            numbers = [int(body.split()[1]) for body in own]
            assert numbers == sorted(numbers), "out of order"


def test_an_acknowledgement_that_was_on_a_link_that_was_cut_is_not_forgotten() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    client = cluster.connect("a")
    client.publish("q", b"1", b"2")
    client.send(methods.encode_basic_consume("q", "c"))
    client.read()
    client.send(methods.encode_basic_ack(1, False))
    cluster["a"].node.turn()
    cluster.cut("a", "b")
    assert cluster.counts("q") == (0, 2)
    cluster.join("a", "b")
    assert client.read() == []
    assert cluster.counts("q") == (0, 1)


def test_deliveries_and_confirms_on_a_link_that_was_cut_come_with_the_next() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    client = cluster.connect("a")
    client.send(methods.encode_confirm_select(), methods.encode_basic_consume("q", "c"))
    client.read()
    client.publish("q", b"1", b"2", persistent=True)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    cluster.cut("a", "b")
    cluster.join("a", "b")
    answers = client.read()
    assert [one.body for one in answers if isinstance(one.method, methods.BasicDeliver)] == [b"1", b"2"]
    assert [one.method for one in answers if isinstance(one.method, methods.BasicAck)] == [
        methods.BasicAck(2, True)
    ]


def test_an_item_that_fails_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    cluster.declare("broken", "b")
    client = cluster.connect("a")
    client.send(methods.encode_confirm_select())
    client.read()

    def fail(*values: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(cluster.queue("broken"), "publish", fail)
    client.publish("broken", b"1")
    client.publish("q", b"2")
    cluster["a"].node.turn()
    with pytest.raises(RuntimeError):
        cluster.carry("a", "b")
    assert client.methods() == [methods.BasicAck(2, False)]
    assert cluster.counts("q") == (1, 0)
