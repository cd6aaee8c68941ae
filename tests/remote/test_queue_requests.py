"""Questions to a queue of another node: get, declare, purge, delete."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands
from mirrormq.remote.remote_limits import DEFAULT_LIMITS
from mirrormq.wire import methods
from tests.remote.cluster import Cluster, RemoteTestClient


def prepared(count: int = 0) -> tuple[Cluster, RemoteTestClient]:
    """Queue q of node b with messages 1, 2, 3 …, and a client of node a."""
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    if count:
        publisher = cluster.connect("b")
        publisher.publish("q", *[b"%d" % number for number in range(1, count + 1)])
        publisher.read()
    return cluster, cluster.connect("a")


def test_a_get_gives_a_message_and_what_is_left() -> None:
    cluster, client = prepared(3)
    got = client.get("q")
    assert got is not None
    assert (got.body, got.method.message_count, got.method.redelivered) == (b"1", 2, False)
    assert cluster.counts("q") == (2, 1)
    client.send(methods.encode_basic_reject(1, True))
    again = client.get("q")
    assert again is not None and (again.body, again.method.redelivered) == (b"1", True)
    client.send(methods.encode_basic_ack(2, False))
    client.read()
    assert cluster.counts("q") == (2, 0)


def test_a_get_without_acknowledgement() -> None:
    cluster, client = prepared(2)
    assert client.drain("q") == [b"1", b"2"]
    assert cluster.counts("q") == (0, 0)


def test_a_get_from_an_empty_queue() -> None:
    _, client = prepared()
    assert client.call(methods.encode_basic_get("q")) == methods.BasicGetEmpty()


def test_a_get_sees_what_its_channel_published_before() -> None:
    _, client = prepared()
    client.publish("q", *[b"x" * 1000] * 5000)
    client.send(methods.encode_basic_get("q", True))
    (got,) = client.read()
    assert got.method.message_count == 4999


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_that_was_fetched_for_a_client_that_is_gone_goes_back(no_ack: bool) -> None:
    cluster, client = prepared(1)
    client.send(methods.encode_basic_get("q", no_ack))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    assert cluster.counts("q") == (0, 1)
    client.lose()
    cluster.settle()
    assert cluster.counts("q") == (1, 0)


def test_a_declaration_counts_what_the_master_has() -> None:
    _, client = prepared(4)
    assert client.call(methods.encode_queue_declare("q", durable=True)) == methods.QueueDeclareOk("q", 4, 0)


def test_a_declaration_of_a_queue_that_is_deleted_before_its_count_is_answered_with_no_messages() -> None:
    cluster, client = prepared(4)
    cluster.cut("a", "b")
    client.send(methods.encode_queue_declare("q", durable=True))
    assert client.read() == []
    cluster.write(commands.DeleteQueue("/", "q"))
    assert client.methods() == [methods.QueueDeclareOk("q", 0, 0)]


def test_a_declaration_is_use_of_the_queue() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b", expires=1000)
    client = cluster.connect("a")
    for nowait in (False, True):
        cluster["b"].node.advance(700)
        client.send(methods.encode_queue_declare("q", passive=True, nowait=nowait))
        client.read()
    cluster["b"].node.advance(700)
    assert "q" in cluster["b"].vhost.queues
    cluster["b"].node.advance(400)
    cluster.settle()
    assert "q" not in cluster["b"].vhost.queues and "q" not in cluster["a"].vhost.queues


def test_a_purge_says_how_many_there_were() -> None:
    cluster, client = prepared(3)
    client.get("q")
    assert client.call(methods.encode_queue_purge("q")) == methods.QueuePurgeOk(2)
    assert cluster.counts("q") == (0, 1)


def test_a_delete_says_how_many_there_were() -> None:
    cluster, client = prepared(3)
    assert client.call(methods.encode_queue_delete("q")) == methods.QueueDeleteOk(3)
    assert "q" not in cluster["a"].vhost.queues and "q" not in cluster["b"].vhost.queues


def test_a_delete_with_conditions_asks_the_master() -> None:
    cluster, client = prepared(1)
    client.send(methods.encode_queue_delete("q", if_empty=True))
    (closed,) = client.methods()
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert (closed.reply_code, closed.class_id, closed.method_id) == (406, 50, 40)
    consumer = cluster.connect("b")
    consumer.send(methods.encode_basic_consume("q", "c"))
    consumer.read()
    late = cluster.connect("a")
    late.send(methods.encode_queue_delete("q", if_unused=True))
    (closed,) = late.methods()
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"


def test_two_deletes_at_once_both_succeed() -> None:
    cluster, client = prepared(2)
    other = cluster.connect("b")
    client.send(methods.encode_queue_delete("q"))
    other.send(methods.encode_queue_delete("q"))
    assert other.methods() == [methods.QueueDeleteOk(2)]
    assert client.methods() == [methods.QueueDeleteOk(0)]


def test_questions_wait_for_a_link() -> None:
    cluster, client = prepared(1)
    cluster.cut("a", "b")
    client.send(methods.encode_basic_get("q", True))
    assert client.read() == []
    cluster.join("a", "b")
    (got,) = client.read()
    assert got.body == b"1"


def test_gets_wait_for_a_link_that_has_enough_to_carry() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    publisher = cluster.connect("b")
    body = b"x" * 1_000_000
    for _ in range(40):
        publisher.publish("q", body)
    publisher.read()
    range_clients = [cluster.connect("a") for _ in range(40)]
    for range_client in range_clients:
        range_client.send(methods.encode_basic_get("q", True))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    assert cluster.counts("q")[1] == DEFAULT_LIMITS.stream_bytes_max // len(body) + 1
    assert [one.body for range_client in range_clients for one in range_client.read()] == [body] * 40


def test_an_answer_that_was_on_a_link_that_was_cut_comes_with_the_next() -> None:
    cluster, client = prepared(2)
    client.send(methods.encode_basic_get("q", True))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    cluster.cut("a", "b")
    cluster.join("a", "b")
    (got,) = client.read()
    assert got.body == b"1"
    assert cluster.counts("q") == (1, 0)
