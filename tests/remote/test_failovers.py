"""Publisher-survives-master (G4): masters fail at random moments, with the client on another node."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mirrormq.wire import methods
from tests.remote.cluster import Cluster, RemoteTestClient


class Incarnation:
    """A queue with a mirror, a publisher and a consumer on a third node, and random progress."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster("a", "b", "c")
        self.cluster.declare("q", "b", "c")
        self.client: RemoteTestClient = self.cluster.connect("a")
        self.client.call(methods.encode_confirm_select())
        self.published = 0

    def publish(self) -> None:
        count = self.chance.randint(1, 5)
        first, self.published = self.published + 1, self.published + count
        bodies = [b"%d" % number for number in range(first, first + count)]
        self.client.publish("q", *bodies, persistent=self.chance.random() < 0.5)

    def step(self) -> None:
        """Something happens somewhere."""
        chance, cluster = self.chance, self.cluster
        what = chance.random()
        if what < 0.25:
            self.publish()
        elif what < 0.6:
            chance.choice(cluster.living()).node.broker.turn(chance.random() < 0.6)
        elif what < 0.97:
            one, other = chance.sample(["a", "b", "c"], 2)
            cluster.carry(one, other, chance.randint(1, 3))
        else:
            pair = sorted(chance.choice(list(cluster.links)))
            cluster.cut(*pair)
            cluster.join(*pair)

    def promote(self) -> None:
        """b falls; the others hear of it one after the other."""
        first, second = self.chance.sample(["a", "c"], 2)
        self.cluster.die("b")
        self.cluster.move("q", "c", only=[first])
        for _ in range(self.chance.randint(0, 20)):
            self.step()
        self.cluster.spread(only=[second])


@pytest.mark.parametrize("seed", range(60))
def test_published_messages_are_in_the_queue_once_and_in_order(seed: int) -> None:
    incarnation = Incarnation(seed)
    for _ in range(incarnation.chance.randint(1, 120)):
        incarnation.step()
    incarnation.promote()
    for _ in range(incarnation.chance.randint(1, 40)):
        incarnation.step()
    assert not [one for one in incarnation.client.methods() if isinstance(one, methods.BasicNack)]
    confirms = incarnation.client.connection.channels[1].publishing.confirms
    assert confirms is not None and confirms.open_count == 0
    assert incarnation.cluster["a"].remote.unsettled_bytes == 0
    expected = [b"%d" % number for number in range(1, incarnation.published + 1)]
    assert incarnation.cluster.connect("c").drain("q") == expected


@pytest.mark.parametrize("seed", [*range(30), 1019, 1020, 1025, 1031])
def test_acknowledged_messages_may_return_and_no_message_is_lost(seed: int) -> None:
    """A consumer on the third node; acknowledgements may be lost with the master, messages never, and what
    comes again says so."""
    incarnation = Incarnation(seed)
    consumer = incarnation.cluster.connect("a")
    consumer.send(methods.encode_basic_qos(0, incarnation.chance.choice([0, 1, 10])))
    consumer.send(methods.encode_basic_consume("q", "c"))
    seen: Counter[bytes] = Counter()

    def look() -> None:
        consumer.collect()
        unread, consumer._unread = consumer._unread, []
        for one in unread:
            if isinstance(one.method, methods.BasicDeliver):
                assert one.body is not None
                seen[one.body] += 1
                assert seen[one.body] == 1 or one.method.redelivered
                consumer.send(methods.encode_basic_ack(one.method.delivery_tag, False))

    for _ in range(100):
        incarnation.step()
        look()
    incarnation.promote()
    for _ in range(1000):
        incarnation.cluster.settle()
        look()
        if incarnation.cluster.counts("q") == (0, 0):
            break
    assert incarnation.cluster.counts("q") == (0, 0)
    assert set(seen) == {b"%d" % number for number in range(1, incarnation.published + 1)}
