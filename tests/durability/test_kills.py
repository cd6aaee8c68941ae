"""SIGKILL at random moments under load: what was confirmed is there, in order, and marked if it was out.

The page cache outlives a killed process, so this is about what the node writes and when, not about
what the disk does with it: `tests/storage` and `tests/broker/test_crashes.py` cut the power of a
simulated disk after every single write.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from mirrormq.perf.publish_frames import ack_frame
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from tests.durability.node import DEADLINE_S, Node
from tests.durability.traffic import Consumer, Deliveries, Publisher, Wire, browse, publish_all, ready
from tests.waiting import until

ROUNDS = 2
LOAD_S = (0.15, 0.9)
"""Duration of a round's load before the kill: the shortest ends within the first segment's first bytes."""

TARGETS = {"one": ["one"], "two": ["two"], "both": ["both-a", "both-b"]}
"""Target of a publisher → queues that its messages reach."""


class Ledger:
    """Confirms and deliveries of one queue, over all rounds."""

    def __init__(self) -> None:
        self.published = 0
        self.confirmed: set[int] = set()
        self.received: set[int] = set()
        self.acknowledged: set[int] = set()
        """The acknowledgement was sent; whether the node had read it when it died is not known."""


class World:
    """A node, its queues and their ledgers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ledgers = {queue: Ledger() for queues in TARGETS.values() for queue in queues}
        client = node.dial()
        client.call(methods.encode_exchange_declare("both", "fanout", durable=True))
        for queue in self.ledgers:
            client.declare_queue(queue, durable=True)
        for queue in TARGETS["both"]:
            client.call(methods.encode_queue_bind(queue, "both", ""))
        client.close()

    def load_and_kill(self, seed: int, *, going: bool = False) -> None:
        """Load every queue, kill the node in the middle, note what was promised. Not before there is
        something promised to everybody if the load must be `going`."""
        publishers = []
        for at, (target, queues) in enumerate(TARGETS.items()):
            exchange, key = ("both", "") if len(queues) > 1 else ("", target)
            first = self.ledgers[queues[0]].published
            publishers.append((Publisher(self.node, exchange, key, first, seed + at), queues))
        consumers = [Consumer(self.node, queue, seed) for queue in ("one", "both-a")]
        threads = [publisher for publisher, _ in publishers] + consumers
        for thread in threads:
            thread.start()
        if going:
            until(lambda: all(publisher.confirmed for publisher, _ in publishers), "the load gets going")
        time.sleep(random.Random(seed).uniform(*LOAD_S))
        self.node.kill()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        for publisher, queues in publishers:
            for queue in queues:
                self.ledgers[queue].published = publisher.next
                self.ledgers[queue].confirmed |= publisher.confirmed
        for consumer in consumers:
            self.ledgers[consumer.queue].received |= consumer.received
            self.ledgers[consumer.queue].acknowledged |= consumer.acknowledged

    def check(self, queue: str) -> None:
        """Everything that the node owes is there. Messages stay; they have been delivered now."""
        ledger = self.ledgers[queue]
        found = browse(self.node, queue)
        numbers = [delivery.number for delivery in found]
        assert numbers == sorted(set(numbers)), "out of order or twice"
        lost = ledger.confirmed - ledger.acknowledged - set(numbers)
        assert not lost, f"{len(lost)} confirmed messages of {queue} are lost, such as {min(lost)}"
        assert not numbers or numbers[-1] < ledger.published
        unmarked = [d.number for d in found if d.number in ledger.received and not d.redelivered]
        assert not unmarked, f"delivered before and not marked: {unmarked[:5]}"
        for delivery in found:
            number, _, padding = delivery.body.partition(b":")
            assert not padding.strip(b"."), f"message {number!r} is damaged"
        ledger.received |= set(numbers)
        ledger.confirmed |= set(numbers) - ledger.acknowledged
        """It was there after a restart: it may not go away after the next one."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.mark.parametrize("seed", [11, 12])
def test_confirmed_messages_survive_kills_under_load(node: Node, seed: int) -> None:
    world = World(node)
    for number in range(ROUNDS):
        world.load_and_kill(seed * 100 + number * 10, going=number == ROUNDS - 1)
        node.boot()
        for queue in world.ledgers:
            world.check(queue)
    assert all(ledger.confirmed for ledger in world.ledgers.values()), "the load never got going"
    dropped = [line for line in node.output.splitlines() if "dropped" in line]
    assert all(line.endswith("torn by a crash") for line in dropped), dropped


def test_numbers_of_a_queue_go_on_after_a_kill(node: Node) -> None:
    """Sequences are never used again: what is acknowledged before a kill cannot kill what comes after it."""
    client = node.dial()
    client.declare_queue("q", durable=True)
    for number in range(3):
        publish_all(node, "q", 100)
        node.kill()
        node.boot()
        assert len(browse(node, "q", take=True)) == 100, f"round {number}"
        assert ready(node, "q") == 0


def test_an_acknowledgement_that_was_answered_for_survives_a_kill(node: Node) -> None:
    """Any reply on the same channel shows that the acknowledgement was read, and its turn has ended."""
    client = node.dial()
    client.declare_queue("q", durable=True)
    publish_all(node, "q", 50)
    client.call(methods.encode_basic_qos(prefetch_count=20))
    wire, reader = Wire(client), Deliveries()
    tags: list[int] = []
    wire.send(method_frame(1, methods.encode_basic_consume("q", "c", nowait=True)))
    while len(tags) < 20:
        tags += [delivery.tag for delivery in reader.feed(wire.read(1.0))]
    wire.send(method_frame(1, methods.encode_basic_cancel("c", True)) + ack_frame(1, tags[9], True))
    wire.send(method_frame(1, methods.encode_basic_qos(0, 1)))
    while methods.BASIC_QOS_OK not in [int.from_bytes(payload[:4], "big") for _, payload in wire.read(1.0)]:
        pass
    node.kill()
    node.boot()
    found = browse(node, "q")
    assert [delivery.number for delivery in found] == list(range(10, 50))
    assert [delivery.redelivered for delivery in found] == [True] * 10 + [False] * 30
