"""Publishing to a queue of another node: confirms, order, what is kept until it is safe, who waits."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.metadata import commands, records
from mirrormq.queues.publish_ids import PublishOrigin, SeenPublishIds
from mirrormq.queues.queue import Queue
from mirrormq.remote.remote_limits import DEFAULT_LIMITS
from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.remote.cluster import Cluster, RemoteTestClient


def prepared(**arguments: Any) -> tuple[Cluster, RemoteTestClient]:
    """Queue q of node b, and a client of node a that wants confirms."""
    cluster = Cluster("a", "b")
    cluster.declare("q", "b", **arguments)
    client = cluster.connect("a")
    client.call(methods.encode_confirm_select())
    return cluster, client


def numbers(count: int, first: int = 1) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def confirmed(answers: list[object]) -> set[int]:
    """The publishes that were acknowledged."""
    found: set[int] = set()
    for one in answers:
        if isinstance(one, methods.BasicAck):
            found |= set(range(1, one.delivery_tag + 1)) if one.multiple else {one.delivery_tag}
    return found


@pytest.mark.parametrize("persistent", [False, True])
def test_a_confirm_comes_when_the_master_has_the_messages(persistent: bool) -> None:
    cluster, client = prepared()
    client.publish("q", *numbers(100), persistent=persistent)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    assert client.read(turn=False) == []
    assert confirmed(client.methods()) == set(range(1, 101))
    assert cluster.connect("b").drain("q") == numbers(100)


def test_a_persistent_message_is_confirmed_after_the_masters_sync() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", persistent=True)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.broker.turn(commit=False)
    assert not cluster.carry("b", "a") or confirmed([one.method for one in client.read(turn=False)]) == set()
    assert confirmed(client.methods()) == {1}
    cluster["b"].node.restart("power")
    assert cluster["b"].node.counts("q") == (1, 0)


def test_a_persistent_message_waits_for_the_sync_also_in_the_company_of_transient_ones() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.publish("q", b"2", persistent=True)
    client.publish("q", b"3")
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.broker.turn(commit=False)
    cluster.carry("b", "a")
    cluster["a"].node.turn()
    assert confirmed([one.method for one in client.read(turn=False)]) == {1, 3}
    assert confirmed(client.methods()) >= {2}


def test_properties_and_routing_survive_the_way() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", headers={"h": Field("I", 7)}, message_id="m", content_type="text/plain")
    got = cluster.connect("b").get("q")
    assert got is not None and got.properties is not None
    assert (got.properties.message_id, got.properties.content_type) == ("m", "text/plain")
    assert got.properties.headers == {"h": Field("I", 7)}
    assert got.method.routing_key == "q"


def test_messages_that_differ_in_their_properties_keep_their_order() -> None:
    cluster, client = prepared()
    for number in range(1, 21):
        client.publish("q", b"%d" % number, message_id=f"m{number}", persistent=number % 3 == 0)
    assert confirmed(client.methods()) == set(range(1, 21))
    reader = cluster.connect("b")
    found = [reader.get("q") for _ in range(20)]
    assert [(one.body, one.properties.message_id) for one in found if one and one.properties] == [
        (b"%d" % number, f"m{number}") for number in range(1, 21)
    ]


def test_a_lifetime_and_a_priority_count_at_the_master() -> None:
    cluster, client = prepared(max_priority=5)
    client.publish("q", b"low", priority=1)
    client.publish("q", b"high", priority=4)
    client.publish("q", b"gone", priority=5, expiration="0")
    client.read()
    assert cluster.connect("b").drain("q") == [b"high", b"low"]


def test_large_messages_and_messages_in_many_frames_arrive_whole() -> None:
    cluster, client = prepared()
    body = bytes(range(256)) * 2000
    client.publish("q", body, b"", b"x")
    assert confirmed(client.methods()) == {1, 2, 3}
    reader = cluster.connect("a")
    assert reader.drain("q") == [body, b"", b"x"]


def test_hidden_keys_are_known_to_the_master() -> None:
    cluster, client = prepared(dead_letter_exchange="amq.fanout", message_ttl=10)
    cluster.declare("dead", "b")
    cluster.write(commands.PutBinding(records.Binding("/", "amq.fanout", "queue", "dead", "")))
    client.publish("nowhere", b"1", headers={"BCC": Field("A", [Field("S", b"q")])})
    client.read()
    assert cluster.counts("q") == (1, 0)
    (message,) = [cluster.queue("q").backing.peek()]
    assert message is not None and message.envelope.hidden_keys == ("q",)


def test_a_full_queue_refuses_and_the_publisher_gets_the_queue_name() -> None:
    cluster, client = prepared(max_length=2, overflow="reject-publish")
    client.publish("q", *numbers(4))
    answers = client.methods()
    assert {one.delivery_tag for one in answers if isinstance(one, methods.BasicNack)} == {3, 4}
    assert confirmed(answers) >= {1, 2}
    assert cluster.counts("q") == (2, 0)


def test_a_publish_to_queues_here_and_there_is_confirmed_once_by_both() -> None:
    cluster, client = prepared()
    cluster.declare("here", "a")
    for name in ("q", "here"):
        cluster.write(commands.PutBinding(records.Binding("/", "amq.fanout", "queue", name, "")))
    client.publish("", b"1", exchange="amq.fanout")
    cluster["a"].node.turn()
    assert client.read(turn=False) == []
    assert client.methods() == [methods.BasicAck(1, False)]
    assert cluster.counts("q") == cluster.counts("here") == (1, 0)


def test_a_mandatory_message_to_a_queue_on_another_node_is_not_returned() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", mandatory=True)
    client.publish("none", b"2", mandatory=True)
    answers = client.read()
    assert [one.body for one in answers if isinstance(one.method, methods.BasicReturn)] == [b"2"]
    assert cluster.counts("q") == (1, 0)


def test_a_transaction_commits_when_the_master_has_it() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b")
    client = cluster.connect("a")
    client.call(methods.encode_tx_select())
    client.publish("q", b"1", b"2", persistent=True)
    client.send(methods.encode_tx_commit())
    cluster["a"].node.turn()
    assert client.read(turn=False) == []
    assert client.methods() == [methods.TxCommitOk()]
    assert cluster.counts("q") == (2, 0)


def test_a_refused_publish_fails_its_transaction() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "b", max_length=1, overflow="reject-publish")
    client = cluster.connect("a")
    client.call(methods.encode_tx_select())
    client.publish("q", b"1", b"2")
    client.send(methods.encode_tx_commit())
    (closed,) = client.methods()
    assert closed.reply_text == "PRECONDITION_FAILED - partial tx completion"


def test_a_dead_letter_goes_to_a_queue_on_another_node() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "a", dead_letter_exchange="", dead_letter_routing_key="dead", max_length=1)
    cluster.declare("dead", "b")
    client = cluster.connect("a")
    client.publish("q", b"1", b"2")
    client.read()
    got = cluster.connect("b").get("dead")
    assert got is not None and got.body == b"1" and got.properties is not None
    assert got.properties.headers is not None and "x-death" in got.properties.headers


def test_nothing_is_kept_when_everything_is_settled() -> None:
    cluster, client = prepared()
    client.publish("q", *numbers(1000), persistent=True)
    client.publish("q", *numbers(1000))
    assert cluster["a"].remote.unsettled_bytes > 0
    client.read()
    assert cluster["a"].remote.unsettled_bytes == 0


def test_publishers_wait_while_the_master_cannot_be_reached_and_go_on_afterwards() -> None:
    cluster, client = prepared()
    other = cluster.connect("a")
    cluster.declare("here", "a")
    cluster.cut("a", "b")
    body = b"x" * 100_000
    for _ in range(3):
        client.publish("q", *[body] * (DEFAULT_LIMITS.publish_bytes_max // len(body) // 2))
    assert (client.connection.held, cluster["a"].vhost.queues["q"].full) == (True, True)
    other.publish("here", b"1")
    assert other.drain("here") == [b"1"]
    cluster.join("a", "b")
    answers = client.methods()
    assert (client.connection.held, cluster["a"].vhost.queues["q"].full) == (False, False)
    assert len(confirmed(answers)) == 3 * (DEFAULT_LIMITS.publish_bytes_max // len(body) // 2)
    assert cluster["a"].remote.unsettled_bytes == 0


def test_dead_letters_stay_where_they_died_while_no_more_can_be_kept() -> None:
    cluster = Cluster("a", "b")
    cluster.declare("q", "a", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=0)
    cluster.declare("dead", "b")
    cluster.cut("a", "b")
    client = cluster.connect("a")
    body = b"x" * 1_000_000
    count = 3 * DEFAULT_LIMITS.publish_bytes_max // len(body)
    for _ in range(count):
        client.publish("q", body)
    kept = cluster["a"].remote.unsettled_bytes
    assert DEFAULT_LIMITS.publish_bytes_max < kept < DEFAULT_LIMITS.publish_bytes_max + 2 * len(body)
    assert sum(cluster["a"].node.counts("q")) == count
    cluster.join("a", "b")
    cluster.settle()
    assert (cluster["a"].node.counts("q"), cluster["b"].node.counts("dead")) == ((0, 0), (count, 0))


def test_publishes_to_a_queue_that_is_deleted_are_confirmed() -> None:
    cluster, client = prepared()
    cluster.cut("a", "b")
    client.publish("q", b"1", b"2")
    assert client.read() == []
    cluster.write(commands.DeleteQueue("/", "q"))
    assert confirmed(client.methods()) == {1, 2}
    assert cluster["a"].remote.unsettled_bytes == 0


def test_a_master_with_enough_messages_slows_publishers_on_other_nodes() -> None:
    cluster, client = prepared()
    slow = cluster.connect("b")
    slow.send(methods.encode_basic_qos(0, 1), methods.encode_basic_consume("q", "c"))
    slow.read()
    client.publish("q", *numbers(1100))
    client.read()
    client.publish("q", *numbers(100))
    client.read()
    assert cluster["a"].vhost.queues["q"].congested
    client.publish("q", *numbers(300))
    assert client.connection.yields_to is cluster["a"].vhost.queues["q"]


# -- what a master has seen ---------------------------------------------------------------------


def test_a_producer_is_known_by_its_highest_number() -> None:
    producers = SeenPublishIds()
    assert producers.seen(PublishOrigin("a#1", 1), 10) == 0
    assert producers.seen(PublishOrigin("a#1", 5), 10) == 6
    assert producers.seen(PublishOrigin("a#1", 1), 14) == 14
    assert producers.seen(PublishOrigin("a#1", 20), 1) == 0
    assert producers.seen(PublishOrigin("b#1", 1), 1) == 0
    assert producers.forget(lambda name: name == "a#1") == ["a#1"]
    assert producers == {"b#1": 1}


def test_publishes_that_come_twice_are_kept_once_and_confirmed_twice() -> None:
    cluster, client = prepared()
    client.publish("q", *numbers(3), persistent=True)
    client.read()
    queue = cluster.queue("q")
    message = queue.backing.peek()
    assert isinstance(queue, Queue) and message is not None and queue.intake.producers == {"a#1": 3}
    reported: list[tuple[int, int]] = []

    class RecordedConfirms:
        def confirmed(self, first: int, last: int) -> None:
            reported.append((first, last))

        def refused(self, number: int) -> None:
            raise AssertionError

    queue.publish([message] * 3, RecordedConfirms(), 101, PublishOrigin("a#1", 2))
    assert reported == []
    cluster["b"].node.turn()
    assert sorted(reported) == [(101, 102), (103, 103)]
    assert cluster.counts("q") == (4, 0)


def test_a_producer_is_forgotten_when_its_incarnation_has_ended() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.read()
    assert cluster.queue("q").intake.producers == {"a#1": 1}
    cluster.die("a")
    assert cluster.queue("q").intake.producers == {}


def test_a_new_master_forgets_producers_of_ended_incarnations() -> None:
    cluster, _ = prepared()
    cluster.die("a")
    queue = cluster.queue("q")
    queue.intake.producers.update({"a#1": 5, "a#2": 7, "c#1": 9})
    cluster["b"].remote.serve(1, 2, queue)
    assert queue.intake.producers == {"a#2": 7, "c#1": 9}
