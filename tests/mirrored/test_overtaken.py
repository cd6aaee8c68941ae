"""`ha-redeliver: lost`: messages that were on their way to a client when the master failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrormq.queues.overtaken import OVERTAKEN_WAIT_MS
from mirrormq.wire import methods
from tests.harness import deliveries
from tests.mirrored.cluster import Cluster, MirroredClient, bodies
from tests.mirrored.test_redeliver import SURVIVORS, prepared, shown


def overtaken(on: str) -> tuple[Cluster, MirroredClient, MirroredClient]:
    """Kill the master while message 0 is on its way to a client of `on`; the other client has message 1."""
    cluster, client = prepared(on="b" if on == "c" else "c")
    other = cluster.connect(on)
    client.publish("q", b"first", *bodies(3), persistent=True)
    client.read()
    assert shown(other.consume("q", prefetch=1)) == [(b"first", False)]
    cluster.held |= {("a", on)}
    other.send(methods.encode_basic_ack(0, True))
    assert deliveries(other.read()) == []
    assert shown(client.consume("q", prefetch=1)) == [(b"1", False)]
    return cluster, client, other


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_message_on_its_way_to_a_survivor_goes_to_its_node(on: str) -> None:
    """A client that has had a younger message does not receive it. It has no mark: no client had it."""
    cluster, client, other = overtaken(on)
    cluster.kill("a")
    cluster.held |= {("c", "b")}
    client.send(methods.encode_basic_ack(0, True))
    cluster.settle()
    cluster.held.clear()
    cluster.settle()
    assert shown(deliveries(other.read())) == [(b"0", False)]
    assert shown(deliveries(client.read())) == [(b"2", False)]
    other.send(methods.encode_basic_ack(0, True))
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 0)


@pytest.mark.parametrize("on", SURVIVORS)
def test_a_message_whose_consumer_has_left_is_marked_after_a_while(on: str) -> None:
    cluster, client, other = overtaken(on)
    other.lose()
    cluster.kill("a")
    cluster.held.clear()
    client.send(methods.encode_basic_ack(0, True))
    cluster.settle()
    assert deliveries(client.read()) == []
    cluster.advance(OVERTAKEN_WAIT_MS)
    assert shown(deliveries(client.read())) == [(b"0", True)]
    client.send(methods.encode_basic_ack(0, True))
    assert shown(deliveries(client.read())) == [(b"2", False)]


def test_deliveries_before_a_node_knew_the_policy_are_marked() -> None:
    """Its claim lacks these deliveries."""
    cluster, client = prepared(on="c")
    client.publish("q", *bodies(2), persistent=True)
    assert shown(client.consume("q")) == [(body, False) for body in bodies(2)]
    queue = cluster["c"].broker.vhosts["/"].queues["q"]
    for known in (False, True):
        queue.apply(replace(queue.settings, redeliver_lost=known))
    cluster.kill("a")
    cluster.settle()
    assert shown(deliveries(client.read())) == [(body, True) for body in bodies(2)]


def test_a_get_of_a_message_that_was_overtaken_is_marked() -> None:
    cluster, client, other = overtaken("c")
    other.lose()
    cluster.kill("a")
    cluster.held.clear()
    cluster.settle()
    found = client.get("q")
    assert found is not None and found.method.redelivered
    found = client.get("q")
    assert found is not None and not found.method.redelivered
