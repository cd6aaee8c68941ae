"""Consuming from a queue of another node: windows, settling, cancelling, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.remote.remote_limits import DEFAULT_LIMITS
from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import Received, deliveries
from tests.remote.cluster import Cluster, RemoteTestClient


def prepared(count: int = 0, **arguments: Any) -> tuple[Cluster, RemoteTestClient]:
    """Queue q of node b with messages 1, 2, 3 …, and a client of node a."""
    cluster = Cluster("a", "b")
    cluster.declare("q", "b", **arguments)
    if count:
        publisher = cluster.connect("b")
        publisher.publish("q", *[b"%d" % number for number in range(1, count + 1)])
        publisher.read()
    return cluster, cluster.connect("a")


def consume(client: RemoteTestClient, prefetch: int = 0, tag: str = "c", **options: Any) -> list[Received]:
    client.send(methods.encode_basic_qos(0, prefetch), methods.encode_basic_consume("q", tag, **options))
    return client.read()


def bodies(received: list[Received]) -> list[bytes | None]:
    return [body for _, body, _ in deliveries(received)]


def test_consume_ok_comes_before_the_first_delivery() -> None:
    _, client = prepared(2)
    received = consume(client)
    assert [type(one.method) for one in received] == [
        methods.BasicQosOk, methods.BasicConsumeOk, methods.BasicDeliver, methods.BasicDeliver,
    ]  # fmt: skip
    assert deliveries(received) == [(1, b"1", False), (2, b"2", False)]


def test_acknowledged_messages_are_gone() -> None:
    cluster, client = prepared(5)
    consume(client)
    assert cluster.counts("q") == (0, 5)
    client.send(methods.encode_basic_ack(3, True), methods.encode_basic_ack(5, False))
    cluster.settle()
    assert cluster.counts("q") == (0, 1)
    client.lose()
    cluster.settle()
    assert cluster.counts("q") == (1, 0)


def test_a_prefetch_window_is_kept_to_exactly() -> None:
    cluster, client = prepared(50)
    assert bodies(consume(client, 3)) == [b"1", b"2", b"3"]
    assert cluster.counts("q") == (47, 3)
    for tag in range(1, 48):
        client.send(methods.encode_basic_ack(tag, False))
        assert bodies(client.read()) == [b"%d" % (tag + 3)]
        assert cluster.counts("q") == (47 - tag, 3)


def test_a_window_for_the_whole_channel_holds_for_the_client() -> None:
    _, client = prepared(20)
    client.call(methods.encode_basic_qos(0, 5, True))
    for tag in ("x", "y"):
        client.send(methods.encode_basic_consume("q", tag))
    got = len(deliveries(client.read()))
    assert got == 5 and len(client.connection.channels[1].unacked) == 5
    client.send(methods.encode_basic_ack(0, True))
    assert len(deliveries(client.read())) == 5


def test_without_a_window_a_bounded_number_is_under_way() -> None:
    cluster, client = prepared()
    publisher = cluster.connect("b")
    publisher.publish("q", *[b"x"] * 10_000)
    publisher.read()
    client.send(methods.encode_basic_consume("q", "c"))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    for _ in range(20):
        cluster["b"].node.turn()
    assert cluster.counts("q") == (10_000 - DEFAULT_LIMITS.credit_max, DEFAULT_LIMITS.credit_max)
    assert len(deliveries(client.read())) == 10_000


def test_large_messages_are_bounded_by_their_bytes() -> None:
    cluster, client = prepared()
    publisher = cluster.connect("b")
    body = b"x" * 500_000
    for _ in range(40):
        publisher.publish("q", body)
    publisher.read()
    client.send(methods.encode_basic_consume("q", "c"))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    for _ in range(20):
        cluster["b"].node.turn()
    held = cluster.counts("q")[1]
    assert (
        DEFAULT_LIMITS.delivered_bytes_max
        <= held * len(body)
        < DEFAULT_LIMITS.delivered_bytes_max + 6 * len(body)
    )
    assert len(deliveries(client.read())) == 40


def test_a_client_that_does_not_read_gets_no_more_than_was_under_way() -> None:
    cluster, client = prepared()
    publisher = cluster.connect("b")
    publisher.publish("q", *[b"x" * 1000] * 10_000)
    publisher.read()
    client.connection.filled()
    client.send(methods.encode_basic_consume("q", "c"))
    cluster.settle()
    assert cluster.counts("q") == (10_000, 0)
    client.connection.drained()
    assert len(deliveries(client.read())) == 10_000


def test_requeued_messages_return_to_their_places_marked() -> None:
    _, client = prepared(4)
    consume(client, 3)
    client.send(methods.encode_basic_nack(2, False, True), methods.encode_basic_reject(3, True))
    assert deliveries(client.read()) == [(4, b"2", True), (5, b"3", True)]


def test_rejected_messages_are_dead_letters_of_the_master() -> None:
    cluster, client = prepared(2, dead_letter_exchange="", dead_letter_routing_key="dead")
    cluster.declare("dead", "a")
    consume(client)
    client.send(methods.encode_basic_nack(2, True, False))
    client.read()
    assert cluster.counts("q") == (0, 0)
    assert cluster.connect("b").drain("dead") == [b"1", b"2"]


def test_recover_gives_everything_back() -> None:
    _, client = prepared(3)
    consume(client, 2)
    client.send(methods.encode_basic_recover(True))
    assert deliveries(client.read()) == [(3, b"1", True), (4, b"2", True)]


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_cancel_loses_nothing_that_is_under_way(no_ack: bool) -> None:
    cluster, client = prepared(10)
    client.send(methods.encode_basic_consume("q", "c", no_ack=no_ack))
    assert len(deliveries(client.read())) == 10
    publisher = cluster.connect("b")
    publisher.publish("q", *[b"%d" % number for number in range(11, 101)])
    cluster["b"].node.turn()
    assert cluster.counts("q") == (0, 90 if no_ack else 100)
    client.send(methods.encode_basic_cancel("c", False))
    received = client.read()
    assert bodies(received) == [b"%d" % number for number in range(11, 101)]
    assert received[-1].method == methods.BasicCancelOk("c")
    assert cluster.counts("q") == (0, 0 if no_ack else 100)


def test_a_cancelled_consumer_keeps_what_it_holds() -> None:
    cluster, client = prepared(3)
    consume(client)
    client.call(methods.encode_basic_cancel("c", False))
    assert not cluster.queue("q").consumers.all
    assert cluster.counts("q") == (0, 3)
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert cluster.counts("q") == (0, 0)


def test_a_client_without_acknowledgements_has_nothing_open_at_the_master() -> None:
    cluster, client = prepared(500)
    client.send(methods.encode_basic_consume("q", "c", no_ack=True))
    assert len(deliveries(client.read())) == 500
    assert cluster.counts("q") == (0, 0)


def test_consumers_here_and_there_share_fairly() -> None:
    cluster, client = prepared()
    local = cluster.connect("b")
    for each in (client, local):
        each.send(methods.encode_basic_consume("q", "c", no_ack=True))
        each.read()
    publisher = cluster.connect("a")
    publisher.publish("q", *[b"x"] * 100)
    publisher.read()
    assert len(deliveries(client.read())) == len(deliveries(local.read())) == 50


def test_a_higher_priority_on_another_node_comes_first() -> None:
    cluster, client = prepared()
    local = cluster.connect("b")
    local.send(methods.encode_basic_consume("q", "c", no_ack=True))
    local.read()
    arguments = {"x-priority": Field("I", 10)}
    client.send(methods.encode_basic_qos(0, 10))
    client.send(methods.encode_basic_consume("q", "c", arguments=arguments))
    client.read()
    publisher = cluster.connect("b")
    publisher.publish("q", *[b"x"] * 15)
    publisher.read()
    assert len(deliveries(client.read())) == 10
    assert len(deliveries(local.read())) == 5


def test_an_exclusive_consumer_on_another_node_excludes_other_consumers() -> None:
    cluster, client = prepared()
    consume(client, exclusive=True)
    refused = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    for node in ("a", "b"):
        late = cluster.connect(node)
        late.send(methods.encode_basic_consume("q", "d"))
        (closed,) = late.methods()
        assert (closed.reply_code, closed.reply_text) == (403, refused)
        assert (closed.class_id, closed.method_id) == (60, 20)
    client.lose()
    cluster.settle()
    late = cluster.connect("b")
    assert isinstance(
        late.call(methods.encode_basic_consume("q", "d", exclusive=True)), methods.BasicConsumeOk
    )


def test_a_single_active_consumer_may_be_anywhere() -> None:
    cluster, client = prepared(single_active_consumer=True)
    local = cluster.connect("b")
    consume(client, tag="first")
    consume(local, tag="second")
    face = cluster["a"].vhost.queues["q"]
    (consumer,) = client.connection.channels[1].consumers.values()
    assert face.is_active(consumer)
    publisher = cluster.connect("b")
    publisher.publish("q", b"1", b"2")
    publisher.read()
    assert bodies(client.read()) == [b"1", b"2"] and bodies(local.read()) == []
    client.lose()
    assert deliveries(local.read()) == [(1, b"1", True), (2, b"2", True)]


def test_the_master_lists_consumers_of_other_nodes() -> None:
    cluster, client = prepared()
    arguments = {"x-priority": Field("I", 3)}
    client.send(methods.encode_basic_qos(0, 7))
    client.send(methods.encode_basic_consume("q", "tag", no_ack=False, arguments=arguments))
    client.read()
    (consumer,) = cluster.queue("q").consumers.all
    described = consumer.describe()
    assert (described.tag, described.node, described.prefetch, described.ack_required) == (
        "tag",
        "a",
        7,
        True,
    )
    assert described.channel_pid == cluster["a"].node.broker.pids.of_channel(client.connection.channels[1])
    assert described.channel_name == f"{client.connection.name} (1)"
    (own,) = client.connection.channels[1].consumers.values()
    assert own.describe() == described


def test_counts_include_consumers_of_other_nodes() -> None:
    cluster, client = prepared()
    consume(client)
    range_client = cluster.connect("a")
    assert range_client.call(methods.encode_queue_declare("q", passive=True)) == methods.QueueDeclareOk(
        "q", 0, 1
    )
