"""Another node becomes master: who moves, what is sent or asked again, what counts for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.metadata import commands
from mirrormq.queues.message import Message
from mirrormq.remote.down_queue import DownQueue
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import deliveries
from tests.remote.cluster import Cluster, RemoteTestClient


def prepared(*ring: str, **arguments: Any) -> tuple[Cluster, RemoteTestClient]:
    """Queue q of node b, mirrored on c unless `ring` says otherwise, and a client of node a that wants
    confirms."""
    cluster = Cluster("a", "b", "c")
    cluster.declare("q", *(ring or ("b", "c")), **arguments)
    client = cluster.connect("a")
    client.call(methods.encode_confirm_select())
    return cluster, client


def promote(cluster: Cluster) -> None:
    """b is gone, and c becomes master with what it has."""
    cluster.die("b")
    cluster.move("q", "c")


def confirmed(client: RemoteTestClient) -> list[int]:
    return [one.delivery_tag for one in client.methods() if isinstance(one, methods.BasicAck)]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def mirror(cluster: Cluster) -> None:
    """Deliver a's publishes to the master and its mirror, and none of the replies to a."""
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    cluster.carry("b", "c")
    cluster["c"].node.turn()


def test_publishes_without_an_answer_go_to_the_next_master() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2", b"3", persistent=True)
    cluster["a"].node.turn()
    promote(cluster)
    assert confirmed(client) == [3]
    assert cluster.connect("c").drain("q") == [b"1", b"2", b"3"]
    assert cluster["a"].remote.unsettled_bytes == 0


@pytest.mark.parametrize("known", range(6))
@pytest.mark.parametrize("persistent", [False, True])
def test_a_publish_that_the_next_master_has_is_confirmed_and_not_kept_twice(
    known: int, persistent: bool
) -> None:
    cluster, client = prepared()
    if known:
        client.publish("q", *numbers(1, known), persistent=persistent)
        mirror(cluster)
    if known < 5:
        client.publish("q", *numbers(known + 1, 5), persistent=persistent)
        cluster["a"].node.turn()
        cluster.carry("a", "b")
    promote(cluster)
    assert max(confirmed(client)) == 5
    assert cluster.connect("c").drain("q") == numbers(1, 5)


def test_numbers_go_on_with_the_next_master() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2")
    client.read()
    promote(cluster)
    client.publish("q", b"3")
    client.read()
    assert cluster.queue("q").intake.producers["a#1"] == 3
    assert cluster.connect("c").drain("q") == [b"1", b"2", b"3"]


def test_a_node_that_becomes_master_itself_keeps_its_publishes() -> None:
    cluster, client = prepared("b", "a")
    client.publish("q", b"1", persistent=True)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    cluster.carry("b", "a", 1)
    client.publish("q", b"2", b"3", persistent=True)
    cluster["a"].node.turn()
    cluster.die("b")
    cluster.move("q", "a")
    assert max(confirmed(client)) == 3
    assert cluster.connect("c").drain("q") == [b"1", b"2", b"3"]


def test_a_refusal_that_was_lost_with_the_master_is_not_turned_into_a_confirm() -> None:
    cluster, client = prepared(max_length=1, overflow="reject-publish")
    client.publish("q", b"1", b"2")
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    taken = cluster.queue("q").take(no_ack=True)
    assert taken is not None
    client.publish("q", b"3")
    mirror(cluster)
    assert cluster.counts("q") == (1, 0)
    promote(cluster)
    answers = client.methods()
    assert {one.delivery_tag for one in answers if isinstance(one, methods.BasicNack)} == {1, 2, 3}
    assert cluster.connect("c").drain("q") == [b"3"]


def test_consumers_move_and_what_they_held_comes_again_marked() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2", b"3")
    client.send(methods.encode_basic_qos(0, 2), methods.encode_basic_consume("q", "c"))
    assert [body for _, body, _ in deliveries(client.read())] == [b"1", b"2"]
    promote(cluster)
    assert deliveries(client.read()) == []
    client.send(methods.encode_basic_ack(2, True))
    assert deliveries(client.read()) == [(3, b"1", True), (4, b"2", True)]
    assert cluster.counts("q") == (1, 2)
    client.send(methods.encode_basic_ack(4, True))
    assert deliveries(client.read()) == [(5, b"3", False)]


def test_a_consumer_that_asked_for_it_is_cancelled_instead() -> None:
    cluster, client = prepared()
    arguments = {"x-cancel-on-ha-failover": Field("t", True)}
    client.send(methods.encode_basic_consume("q", "told", arguments=arguments))
    client.send(methods.encode_basic_consume("q", "moved"))
    client.read()
    promote(cluster)
    assert client.methods() == [methods.BasicCancel("told", True)]
    assert [one.describe().tag for one in cluster.queue("q").consumers.all] == ["moved"]
    assert list(client.connection.channels[1].consumers) == ["moved"]


def test_questions_without_an_answer_are_asked_again() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.read()
    asking = cluster.connect("a")
    requests = [
        methods.encode_basic_get("q", True),
        methods.encode_basic_consume("q", "c"),
        methods.encode_queue_declare("q", passive=True),
    ]
    for number in range(2, 2 + len(requests)):
        asking.call(methods.encode_channel_open(), channel=number)
    for number, request in enumerate(requests, 2):
        asking.send(request, channel=number)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    promote(cluster)
    answers = {one.channel: one for one in asking.read()}
    assert answers[2].body == b"1"
    assert isinstance(answers[3].method, methods.BasicConsumeOk)
    assert isinstance(answers[4].method, methods.QueueDeclareOk)


def test_a_get_that_is_asked_again_can_be_acknowledged() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.read()
    client.send(methods.encode_basic_get("q"))
    cluster["a"].node.turn()
    promote(cluster)
    (got,) = client.read()
    client.send(methods.encode_basic_ack(got.method.delivery_tag, False))
    client.read()
    assert cluster.counts("q") == (0, 0)


def test_items_for_a_master_that_does_not_know_its_role_yet_wait() -> None:
    cluster, client = prepared()
    cluster.die("b")
    cluster.move("q", "c", only=["a"])
    client.publish("q", b"1")
    client.send(methods.encode_basic_get("q", True))
    cluster["a"].node.turn()
    cluster.carry("a", "c")
    cluster["c"].node.turn()
    assert client.read(turn=False) == []
    assert {type(one.method) for one in client.read()} == {methods.BasicAck, methods.BasicGetOk}


def test_items_for_a_deposed_master_are_dropped() -> None:
    cluster, client = prepared("b")
    client.publish("q", b"1")
    client.send(methods.encode_basic_consume("q", "c"))
    cluster["a"].node.turn()
    cluster.move("q", "c", only=["b", "c"])
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    assert isinstance(cluster["b"].vhost.queues["q"], RemoteQueue)
    assert deliveries(client.read()) == [(1, b"1", True)]
    assert cluster.counts("q") == (0, 1)


def test_a_message_that_no_master_had_is_not_marked_redelivered() -> None:
    cluster, client = prepared("b")
    client.publish("q", b"1")
    client.send(methods.encode_basic_consume("q", "c"))
    cluster.move("q", "c")
    assert deliveries(client.read()) == [(1, b"1", False)]


def test_the_next_master_learns_what_was_delivered_if_its_ring_did_not() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2")
    client.read()
    cluster.cut("b", "c")
    client.send(methods.encode_basic_qos(0, 1), methods.encode_basic_consume("q", "c"))
    assert deliveries(client.read()) == [(1, b"1", False)]
    promote(cluster)
    client.send(methods.encode_basic_ack(1, False))
    assert deliveries(client.read()) == [(2, b"1", True)]
    client.send(methods.encode_basic_ack(2, False))
    assert deliveries(client.read()) == [(3, b"2", False)]


def test_consumers_of_a_master_that_was_deposed_follow_the_queue() -> None:
    cluster, client = prepared("b")
    local = cluster.connect("b")
    local.send(methods.encode_basic_consume("q", "c"))
    local.read()
    cluster.move("q", "c")
    client.publish("q", b"1")
    client.read()
    assert deliveries(local.read()) == [(1, b"1", False)]
    local.send(methods.encode_basic_ack(1, False))
    local.read()
    assert cluster.counts("q") == (0, 0)
    cluster.move("q", "b")
    client.publish("q", b"2")
    client.read()
    assert deliveries(local.read()) == [(2, b"2", False)]


def test_an_object_that_is_retired_passes_publishes_and_questions_on() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.read()
    message = cluster.queue("q").backing.peek()
    assert message is not None
    old = cluster["a"].vhost.queues["q"]
    cluster.move("q", "c", "b")
    old.publish([Message(message.envelope, message.frames)])
    counted: list[tuple[int, int]] = []
    old.count(lambda ready, consumers: counted.append((ready, consumers)), _never)
    cluster.settle()
    assert counted == [(2, 0)] and cluster.counts("q") == (2, 0)


def _never(error: Exception) -> None:
    raise AssertionError(error)


def test_acknowledgements_for_an_earlier_epoch_count_for_nothing() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2")
    client.send(methods.encode_basic_consume("q", "c"))
    assert len(deliveries(client.read())) == 2
    promote(cluster)
    assert deliveries(client.read()) == [(3, b"1", True), (4, b"2", True)]
    client.send(methods.encode_basic_ack(2, True), methods.encode_basic_nack(3, False, True))
    assert deliveries(client.read()) == [(5, b"1", True)]
    assert cluster.counts("q") == (0, 2)


# -- nobody is master ---------------------------------------------------------------------------

HOME_DOWN = "NOT_FOUND - home node 'b' of durable queue 'q' in vhost '/' is down or inaccessible"


def fall(cluster: Cluster) -> None:
    """b is gone and nobody can take over."""
    cluster.die("b")
    cluster.move("q", "b", waits_for=("b",))


def test_a_queue_without_a_master_names_the_node_it_waits_for() -> None:
    cluster, client = prepared("b")
    fall(cluster)
    for request in (
        methods.encode_basic_consume("q", "c"),
        methods.encode_basic_get("q"),
        methods.encode_queue_purge("q"),
        methods.encode_queue_declare("q", passive=True),
        methods.encode_queue_delete("q"),
    ):
        client.send(request)
        (closed,) = client.methods()
        assert (closed.reply_code, closed.reply_text) == (404, HOME_DOWN)
        client.send(methods.encode_channel_close_ok(), methods.encode_channel_open())
        client.read()


def test_a_queue_without_a_master_takes_nothing_and_cancels_its_consumers() -> None:
    cluster, client = prepared("b")
    client.send(methods.encode_basic_consume("q", "c"))
    client.read()
    client.publish("q", b"1", b"2")
    cluster["a"].node.turn()
    fall(cluster)
    answers = client.methods()
    assert methods.BasicCancel("c", True) in answers
    assert {one.delivery_tag for one in answers if isinstance(one, methods.BasicNack)} == {1, 2}
    client.publish("q", b"3")
    assert client.methods() == [methods.BasicNack(3, False, False)]


def test_a_master_that_returns_is_another_incarnation() -> None:
    cluster, client = prepared("b")
    client.publish("q", b"1", persistent=True)
    client.read()
    fall(cluster)
    cluster.revive("b")
    cluster.move("q", "b")
    client.publish("q", b"2")
    assert confirmed(client) == [2]
    assert client.drain("q") == [b"1", b"2"]


def test_a_down_queue_can_be_deleted_by_the_metadata() -> None:
    cluster, _ = prepared("b")
    fall(cluster)
    down = cluster["a"].vhost.queues["q"]
    assert isinstance(down, DownQueue)
    cluster.write(commands.DeleteQueue("/", "q"))
    assert down.deleted and "q" not in cluster["a"].vhost.queues


def test_a_consumer_that_goes_before_the_next_master_has_answered_is_not_left_there() -> None:
    cluster, client = prepared()
    client.call(methods.encode_basic_consume("q"))
    cluster.cut("a", "c")
    cluster.move("q", "c", "b")
    client.lose()
    cluster.join("a", "c")
    cluster.settle()
    assert not cluster.queue("q").consumers.all
    other = cluster.connect("c")
    other.publish("q", b"1")
    assert other.drain("q") == [b"1"]
