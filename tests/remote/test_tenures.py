"""Another node becomes master: who moves, what is sent or asked again, what counts for nothing."""

from __future__ import annotations

import random

import pytest

from mirrormq.metadata import commands
from mirrormq.queues.message import Message
from mirrormq.queues.producers import Origin
from mirrormq.queues.queue import Queue
from mirrormq.queues.settings import QueueSettings
from mirrormq.remote.down_queue import DownQueue
from mirrormq.remote.handover import hand_over
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import deliveries
from tests.remote.cluster import Cluster, RemoteTestClient


def prepared(**arguments: object) -> tuple[Cluster, RemoteTestClient]:
    """Queue q of node b, and a client of node a that wants confirms."""
    cluster = Cluster("a", "b", "c")
    cluster.declare("q", "b", **arguments)
    client = cluster.connect("a")
    client.call(methods.encode_confirm_select())
    return cluster, client


def confirmed(client: RemoteTestClient) -> list[int]:
    return [one.delivery_tag for one in client.methods() if isinstance(one, methods.BasicAck)]


def copy(cluster: Cluster, count: int, producer: str = "a#1") -> None:
    """What a ring does: node c has the first `count` messages of a producer, and knows whose they are."""
    queue = cluster["c"].vhost.queues["q"]
    assert isinstance(queue, Queue)
    source = cluster.queue("q").backing
    messages = [Message(m.envelope, m.frames) for m in source.fetch(count)]
    queue.publish(messages, None, 0, Origin(producer, 1))


def mirrored() -> tuple[Cluster, RemoteTestClient]:
    """The same, with a local Queue on c too, in the place of a mirror."""
    cluster, client = prepared()
    record = cluster["c"].node.metadata.state.queues["/", "q"]
    face = cluster["c"].vhost.queues["q"]
    assert isinstance(face, RemoteQueue)
    from mirrormq.broker.queue_factory import make_queue

    cluster["c"].vhost.queues["q"] = make_queue(cluster["c"].vhost, record)
    return cluster, client


def promote(cluster: Cluster) -> None:
    """b is gone; c has become master with what it has."""
    cluster.die("b")
    cluster.masters["q"] = ("c", 2)
    record = cluster["c"].node.metadata.state.queues["/", "q"]
    cluster["c"].remote.serve(record.queue_id, 2, cluster["c"].vhost.queues["q"])
    cluster.follow(cluster["a"], "q")


def test_publishes_without_an_answer_go_to_the_next_master() -> None:
    cluster, client = mirrored()
    client.publish("q", b"1", b"2", b"3", persistent=True)
    cluster["a"].node.turn()
    promote(cluster)
    assert confirmed(client) == [3]
    assert cluster.connect("c").drain("q") == [b"1", b"2", b"3"]
    assert cluster["a"].remote.unsettled_bytes == 0


@pytest.mark.parametrize("known", range(6))
def test_what_the_next_master_has_already_is_confirmed_and_not_kept_twice(known: int) -> None:
    cluster, client = mirrored()
    for number in range(1, 6):
        client.publish("q", b"%d" % number, persistent=number % 2 == 0)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    if known:
        copy(cluster, known)
    promote(cluster)
    assert max(confirmed(client)) == 5
    assert cluster.connect("c").drain("q") == [b"%d" % number for number in range(1, 6)]


def test_numbers_go_on_with_the_next_master() -> None:
    cluster, client = mirrored()
    client.publish("q", b"1", b"2")
    client.read()
    copy(cluster, 2)
    promote(cluster)
    client.publish("q", b"3")
    client.read()
    assert cluster.queue("q").producers == {"a#1": 3}
    assert cluster.connect("c").drain("q") == [b"1", b"2", b"3"]


def test_a_node_that_becomes_master_itself_keeps_its_publishes() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2", persistent=True)
    cluster["a"].node.turn()
    cluster.die("b")
    cluster.move("q", "a")
    assert confirmed(client) == [2]
    assert cluster.connect("c").drain("q") == [b"1", b"2"]
    assert cluster.queue("q").producers == {"a#1": 2}


def test_a_refusal_that_was_lost_with_the_master_is_not_turned_into_a_confirm() -> None:
    cluster, client = prepared(max_length=1, overflow="reject-publish")
    cluster["c"].vhost.queues["q"].retire()
    record = cluster["c"].node.metadata.state.queues["/", "q"]
    from mirrormq.broker.queue_factory import make_queue

    cluster["c"].vhost.queues["q"] = make_queue(cluster["c"].vhost, record)
    client.publish("q", b"1", b"2", b"3")
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["c"].vhost.queues["q"].producers["a#1"] = 3
    promote(cluster)
    answers = client.methods()
    assert {one.delivery_tag for one in answers if isinstance(one, methods.BasicNack)} == {1, 2, 3}


def test_consumers_move_and_what_they_held_comes_again_marked() -> None:
    cluster, client = mirrored()
    client.publish("q", b"1", b"2", b"3")
    client.send(methods.encode_basic_qos(0, 2), methods.encode_basic_consume("q", "c"))
    assert [body for _, body, _ in deliveries(client.read())] == [b"1", b"2"]
    queue = cluster["c"].vhost.queues["q"]
    messages = [Message(m.envelope, m.frames) for m in _all(cluster.queue("q"))]
    queue.publish(messages, None, 0, Origin("a#1", 1))
    queue.requeue(queue.backing.fetch(2))
    promote(cluster)
    client.read()
    client.send(methods.encode_basic_ack(2, True))
    assert deliveries(client.read()) == [(3, b"1", True), (4, b"2", True)]
    assert cluster.counts("q") == (1, 2)
    client.send(methods.encode_basic_ack(4, True))
    assert [body for _, body, _ in deliveries(client.read())] == [b"3"]


def _all(queue: Queue) -> list[Message]:
    held = list(queue.backing.fetch(100))
    queue.requeue(held)
    mine = {message.sequence: message for message in held}
    remote = next(iter(queue.consumers.all))
    mine.update(remote._client._held)
    return [mine[number] for number in sorted(mine)]


def test_a_consumer_that_asked_for_it_is_cancelled_instead() -> None:
    cluster, client = mirrored()
    arguments = {"x-cancel-on-ha-failover": Field("t", True)}
    client.send(methods.encode_basic_consume("q", "told", arguments=arguments))
    client.send(methods.encode_basic_consume("q", "moved"))
    client.read()
    promote(cluster)
    assert client.methods() == [methods.BasicCancel("told", True)]
    assert [one.describe().tag for one in cluster.queue("q").consumers.all] == ["moved"]
    assert list(client.connection.channels[1].consumers) == ["moved"]


def test_questions_without_an_answer_are_asked_again() -> None:
    cluster, client = mirrored()
    client.publish("q", b"1")
    client.read()
    copy(cluster, 1)
    asking = cluster.connect("a")
    for number in (2, 3):
        asking.call(methods.encode_channel_open(), channel=number)
    asking.send(methods.encode_basic_get("q", True), channel=2)
    asking.send(methods.encode_basic_consume("q", "c"), channel=3)
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    promote(cluster)
    answers = {one.channel: one for one in asking.read()}
    assert answers[2].body == b"1"
    assert isinstance(answers[3].method, methods.BasicConsumeOk)


def test_a_get_that_is_asked_again_can_be_acknowledged() -> None:
    cluster, client = mirrored()
    client.publish("q", b"1")
    client.read()
    copy(cluster, 1)
    client.send(methods.encode_basic_get("q"))
    cluster["a"].node.turn()
    promote(cluster)
    (got,) = client.read()
    client.send(methods.encode_basic_ack(got.method.delivery_tag, False))
    client.read()
    assert cluster.counts("q") == (0, 0)


def test_what_is_said_to_a_master_before_it_knows_that_it_is_one_waits() -> None:
    cluster, client = prepared()
    cluster.die("b")
    cluster.masters["q"] = ("c", 2)
    cluster.follow(cluster["a"], "q")
    client.publish("q", b"1")
    client.send(methods.encode_basic_get("q", True))
    assert client.read() == []
    cluster.follow(cluster["c"], "q")
    answers = client.read()
    assert {type(one.method) for one in answers} == {methods.BasicAck, methods.BasicGetOk}


def test_what_is_said_to_a_master_that_is_none_any_more_is_dropped() -> None:
    cluster, client = prepared()
    client.publish("q", b"1")
    client.send(methods.encode_basic_consume("q", "c"))
    cluster["a"].node.turn()
    cluster.masters["q"] = ("c", 2)
    cluster.follow(cluster["b"], "q")
    cluster.follow(cluster["c"], "q")
    cluster.settle()
    assert cluster.counts("q") == (0, 0)
    cluster.follow(cluster["a"], "q")
    assert deliveries(client.read()) == [(1, b"1", False)]


def test_consumers_of_a_master_that_was_deposed_follow_the_queue() -> None:
    cluster, client = prepared()
    local = cluster.connect("b")
    local.send(methods.encode_basic_consume("q", "c"))
    local.read()
    cluster.move("q", "c")
    client.publish("q", b"1")
    client.read()
    assert deliveries(local.read()) == [(1, b"1", False)]
    cluster.move("q", "b")
    client.publish("q", b"2")
    client.read()
    assert deliveries(local.read()) == [(2, b"2", False)]


def test_an_object_that_is_retired_passes_publishes_on() -> None:
    cluster, client = prepared()
    old = cluster["a"].vhost.queues["q"]
    cluster.move("q", "c")
    message = Message(_envelope(client, cluster), _frames(cluster))
    old.publish([message])
    cluster.settle()
    assert cluster.counts("q") == (2, 0)


def _envelope(client: RemoteTestClient, cluster: Cluster) -> object:
    client.publish("q", b"1")
    client.read()
    message = cluster.queue("q").backing.peek()
    assert message is not None
    return message.envelope


def _frames(cluster: Cluster) -> bytes:
    message = cluster.queue("q").backing.peek()
    assert message is not None
    return message.frames


# -- nobody is master ---------------------------------------------------------------------------

HOME_DOWN = "NOT_FOUND - home node 'b' of durable queue 'q' in vhost '/' is down or inaccessible"


def fall(cluster: Cluster) -> None:
    """b is gone and nobody can take over."""
    cluster.die("b")
    for name in ("a", "c"):
        vhost = cluster[name].vhost
        before = vhost.queues["q"]
        down = vhost.queues["q"] = DownQueue("/", "q", before.settings, "b")
        vhost.router.invalidate()
        hand_over(before.retire(), down)


def test_a_queue_without_a_master_says_whom_it_waits_for() -> None:
    cluster, client = prepared()
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
    cluster, client = prepared()
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


def test_a_master_that_returns_is_another_life() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", persistent=True)
    client.read()
    fall(cluster)
    cluster["b"].node.restart("power")
    cluster["b"].life = 2
    cluster["b"].alive = True
    cluster["b"].begin()
    cluster.masters["q"] = ("b", 2)
    for name in ("a", "c"):
        cluster.join(name, "b")
    for name in "abc":
        cluster._begin_tenure(cluster[name], "q")
    client.publish("q", b"2")
    assert confirmed(client) == [2]
    assert client.drain("q") == [b"1", b"2"]


def test_a_down_queue_can_be_deleted_by_the_metadata() -> None:
    cluster, _ = prepared()
    fall(cluster)
    down = cluster["a"].vhost.queues["q"]
    cluster.write(commands.DeleteQueue("/", "q"))
    assert down.deleted and "q" not in cluster["a"].vhost.queues
    down.apply(QueueSettings())
    assert not down.pump()


# -- at random ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_was_published_is_lost_when_masters_fall_at_random(seed: int) -> None:
    """The mirror has a random beginning of what the master had, at least all that was confirmed."""
    chance = random.Random(seed)
    cluster, client = mirrored()
    source, mirror = cluster.queue("q"), cluster["c"].vhost.queues["q"]
    total = 0
    for _ in range(chance.randint(1, 30)):
        count = chance.randint(1, 5)
        client.publish("q", *[b"%d" % n for n in range(total + 1, total + count + 1)])
        total += count
        if chance.random() < 0.7:
            cluster["a"].node.turn()
        if chance.random() < 0.5:
            cluster.carry("a", "b", 1)
        if chance.random() < 0.3:
            cluster["b"].node.turn()
            cluster.carry("b", "a", 1)
        if chance.random() < 0.2:
            cluster.cut("a", "b")
            cluster.join("a", "b")
            cluster.carry("b", "a")
            cluster.carry("a", "b")
    messages = source.backing.fetch(10_000)
    settled = total - cluster["a"].vhost.queues["q"]._publishes.unsettled.count
    known = chance.randint(settled, len(messages))
    if known:
        mirror.publish([Message(m.envelope, m.frames) for m in messages[:known]], None, 0, Origin("a#1", 1))
    promote(cluster)
    client.read()
    assert cluster["a"].remote.unsettled_bytes == 0
    assert cluster.connect("c").drain("q") == [b"%d" % n for n in range(1, total + 1)]
