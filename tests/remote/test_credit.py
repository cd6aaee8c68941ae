"""Consumers with credit, wherever they and their queues are: what counts as delivered, and who is served."""

from __future__ import annotations

import pytest

from mirrormq.wire import methods
from tests.remote.cluster import Cluster
from tests.remote.test_consuming import bodies, consume, prepared


@pytest.mark.parametrize("nodes", ["aaa", "bbb", "abb"])
@pytest.mark.parametrize("limit", [1, 5])
def test_a_window_for_the_whole_channel_is_shared_fairly(nodes: str, limit: int) -> None:
    """Wherever the queues are: with their consumers, or on another node."""
    cluster = Cluster("a", "b")
    names = ["q0", "q1", "q2"]
    for name, node in zip(names, nodes, strict=True):
        cluster.declare(name, node)
        cluster.connect(node).publish(name, *[b"x"] * 300)
    client = cluster.connect("a")
    client.call(methods.encode_basic_qos(0, limit, True))
    for name in names:
        client.send(methods.encode_basic_consume(name, name))
    served: list[str] = []
    while len(served) < 300:
        for one in client.read():
            if isinstance(one.method, methods.BasicDeliver):
                served.append(one.method.routing_key)
                client.send(methods.encode_basic_ack(one.method.delivery_tag, False))
    assert min(served.count(name) for name in names) >= len(served) / 3 / 2, served


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_consumer_without_acknowledgements_waits_for_the_channels_window(node: str) -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    cluster.declare("other", node)
    client = cluster.connect("a")
    client.call(methods.encode_basic_qos(0, 1, True))
    client.send(methods.encode_basic_consume("q", "c"))
    client.send(methods.encode_basic_consume("other", "none", no_ack=True))
    client.publish("q", b"held")
    assert bodies(client.read()) == [b"held"]
    client.publish("other", b"x", b"y")
    assert bodies(client.read()) == []
    client.send(methods.encode_basic_ack(1, False))
    assert bodies(client.read()) == [b"x", b"y"]


BEHIND_A_PUBLISH = {
    "get": (methods.encode_basic_get("q"), methods.BasicGetEmpty()),
    "passive": (methods.encode_queue_declare("q", passive=True), methods.QueueDeclareOk("q", 0, 1)),
    "purge": (methods.encode_queue_purge("q"), methods.QueuePurgeOk(0)),
    "delete": (methods.encode_queue_delete("q", if_empty=True), methods.QueueDeleteOk(0)),
    "cancel": (methods.encode_basic_cancel("c", False), methods.BasicCancelOk("c")),
}


@pytest.mark.parametrize("consumer_at", ["a", "b", "c"])
@pytest.mark.parametrize("behind", BEHIND_A_PUBLISH)
def test_a_publish_counts_as_delivered_for_what_comes_behind_it(behind: str, consumer_at: str) -> None:
    """Wherever the consumer is: with the publisher, with the queue's master, or on a third node."""
    cluster = Cluster("a", "b", "c")
    cluster.declare("q", "b")
    client = cluster.connect("a")
    consumer = client if consumer_at == "a" else cluster.connect(consumer_at)
    consume(consumer)
    client.publish("q", b"x")
    request, answer = BEHIND_A_PUBLISH[behind]
    client.send(request)
    received = client.read()
    assert answer in [one.method for one in received]
    assert bodies(received if consumer is client else consumer.read()) == [b"x"]


def test_a_publish_before_the_channel_is_closed_comes_back_redelivered() -> None:
    cluster, client = prepared()
    consume(client)
    client.publish("q", b"x")
    client.send(methods.encode_channel_close(200, "", 0, 0))
    client.read()
    got = cluster.connect("b").get("q")
    assert got is not None and got.method.redelivered
