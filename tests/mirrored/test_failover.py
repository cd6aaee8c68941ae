"""The master dies, or is deposed while it lives: what survives, what is marked, who moves."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands as c
from mirrormq.remote.down_queue import DownQueue
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.wire import methods
from tests.harness import deliveries
from tests.mirrored.cluster import Cluster, MirroredClient, bodies


def prepared(*, on: str = "b", durable: bool = True, **arguments: object) -> tuple[Cluster, MirroredClient]:
    """Queue q with its master on a and mirrors on b and c; a client of `on` that wants confirms."""
    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    cluster.connect("a").declare("q", durable=durable, **arguments)
    client = cluster.connect(on)
    client.confirm_select()
    return cluster, client


@pytest.mark.parametrize("persistent", [True, False])
def test_the_oldest_mirror_takes_over_with_everything(persistent: bool) -> None:
    cluster, client = prepared()
    client.publish("q", *bodies(30), persistent=persistent)
    client.read()
    cluster.kill("a")
    cluster.settle()
    assert cluster.record("q").ring.members == ("b", "c")
    assert cluster.record("q").ring.epoch == 2
    assert client.drain("q") == bodies(30)


def test_only_messages_of_consumers_are_redelivered_and_marked() -> None:
    cluster, client = prepared()
    client.publish("q", *bodies(10), persistent=True)
    taken = client.consume("q", prefetch=4)
    assert [redelivered for _, _, redelivered in taken] == [False] * 4
    cluster.kill("a")
    again = deliveries(client.read())
    assert [(body, redelivered) for _, body, redelivered in again] == []
    client.send(methods.encode_basic_ack(4, True))
    again = deliveries(client.read())
    assert [(body, redelivered) for _, body, redelivered in again] == [
        (b"%d" % number, True) for number in range(4)
    ]
    client.send(methods.encode_basic_ack(again[-1][0], True))
    again = deliveries(client.read())
    assert [(body, redelivered) for _, body, redelivered in again] == [
        (b"%d" % number, False) for number in range(4, 8)
    ]


def test_publishes_without_an_answer_reach_the_next_master_once() -> None:
    cluster, client = prepared(on="c")
    cluster.held |= {("a", "c"), ("b", "a")}
    client.publish("q", *bodies(5), persistent=True)
    cluster.settle()
    client.publish("q", *bodies(5, 5))
    client.read()
    assert client.confirmed == set()
    cluster.held.clear()
    cluster.kill("a")
    client.read()
    assert client.confirmed == set(range(1, 11))
    assert client.drain("q") == bodies(10)


def test_a_client_of_the_new_master_s_node_goes_on() -> None:
    cluster, client = prepared(on="b")
    client.publish("q", *bodies(5), persistent=True)
    client.consume("q", prefetch=2)
    cluster.kill("a")
    client.read()
    client.publish("q", b"more", persistent=True)
    client.read()
    assert client.confirmed == set(range(1, 7))
    assert cluster.counts("q")[0] + cluster.counts("q")[1] == 6


def test_a_consumer_that_asked_for_it_is_cancelled() -> None:
    cluster, client = prepared(on="c")
    client.consume("q", "told", cancel_on_ha_failover=True)
    client.consume("q", "moved")
    cluster.kill("a")
    cancels = [one for one in client.methods() if isinstance(one, methods.BasicCancel)]
    assert [one.consumer_tag for one in cancels] == ["told"]
    client.publish("q", b"1")
    assert [body for _, body, _ in deliveries(client.read())] == [b"1"]


def test_confirms_that_waited_for_a_dead_mirror_are_released() -> None:
    cluster, client = prepared(on="a")
    cluster.held |= {("b", "a")}
    client.publish("q", b"1", persistent=True)
    client.read()
    assert client.confirmed == set()
    cluster.kill("b")
    client.read()
    assert client.confirmed == {1}
    assert cluster.record("q").ring.members == ("a", "c")


def test_one_node_is_enough_and_then_there_are_three_again() -> None:
    cluster, client = prepared(on="c")
    client.publish("q", *bodies(10), persistent=True)
    client.read()
    cluster.follows = lambda member: True  # type: ignore[method-assign]
    cluster.kill("a")
    cluster.settle()
    cluster.kill("b")
    client.publish("q", *bodies(10, 10), persistent=True)
    client.read()
    assert client.confirmed == set(range(1, 21))
    assert cluster.queue("q").mirrored is None, "there is nobody to tell"
    for name in ("a", "b"):
        cluster.start(name)
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")
    assert cluster["a"].stored("q") == bodies(20)


def test_an_isolated_master_passes_its_publishes_to_its_successor() -> None:
    cluster, client = prepared(on="a")
    client.publish("q", *bodies(3), persistent=True)
    client.read()
    cluster.coordinated = False
    cluster.isolate("a")
    cluster.change_view("q", members=("b", "c", "a"))
    client.publish("q", *bodies(3, 3), persistent=True)
    client.publish("q", *bodies(3, 6))
    cluster["a"].turn()
    client.read(turn=False)
    assert client.confirmed == {1, 2, 3}
    cluster.join("a", "b")
    cluster.join("a", "c")
    client.read()
    assert client.confirmed == set(range(1, 10))
    assert isinstance(cluster["a"].queue_object("q"), RemoteQueue)
    assert cluster.connect("b").drain("q") == bodies(9)


def test_unconfirmed_publishes_are_not_lost_with_the_master() -> None:
    cluster, _ = prepared()
    client = cluster.connect("a")
    cluster.coordinated = False
    cluster.isolate("a")
    cluster.change_view("q", members=("b", "c", "a"))
    client.publish("q", *bodies(3))
    cluster["a"].turn()
    cluster.join("a", "b")
    cluster.join("a", "c")
    cluster.settle()
    assert cluster.connect("b").drain("q") == bodies(3)


def test_deliveries_of_a_deposed_master_are_repeated_and_their_acknowledgements_ignored() -> None:
    cluster, client = prepared(on="a")
    client.publish("q", *bodies(4), persistent=True)
    client.consume("q", prefetch=2)
    cluster.change_view("q", members=("b", "c", "a"))
    assert cluster.master("q").name == "b"
    client.send(methods.encode_basic_ack(1, False))
    again = deliveries(client.read())
    client.send(methods.encode_basic_ack(2, False))
    again += deliveries(client.read())
    assert [(body, redelivered) for _, body, redelivered in again] == [(b"0", True), (b"1", True)]
    assert sum(cluster.counts("q")) == 4
    cluster.check_equal("q")


def test_a_master_that_hands_over_stays_synchronised() -> None:
    cluster, client = prepared(on="a")
    client.publish("q", *bodies(100), persistent=True)
    client.read()
    cluster.listening = True
    cluster.change_view("q", members=("b", "c", "a"))
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    sent = [message for _, _, message in cluster.sent if type(message).__name__ == "SyncBatch"]
    assert not sent, "nobody had to catch up"
    client.publish("q", *bodies(10, 100), persistent=True)
    client.read()
    cluster.check_equal("q")


def test_the_lead_goes_round_under_load() -> None:
    cluster, client = prepared(on="a")
    consumer = cluster.connect("c")
    got: list[bytes] = []
    consumer.send(methods.encode_basic_consume("q", "c"))
    published = 0
    for _turn in range(12):
        client.publish("q", *bodies(20, published), persistent=True)
        published += 20
        members = cluster.record("q").ring.members
        for _ in range(cluster.choice.randrange(4)):
            cluster.round()
        cluster.change_view("q", members=(*members[1:], members[0]))
        for tag, body, _ in deliveries(consumer.read()):
            got.append(body or b"")
            consumer.send(methods.encode_basic_ack(tag, False))
    client.read()
    got += [body or b"" for _, body, _ in deliveries(consumer.read())]
    assert client.confirmed == set(range(1, published + 1))
    assert set(got) == set(bodies(published))
    cluster.check_equal("q")


def test_all_nodes_lose_power_and_what_was_confirmed_is_there() -> None:
    cluster, client = prepared(on="a")
    client.publish("q", *bodies(20), persistent=True)
    client.read()
    for name in ("a", "b", "c"):
        cluster.kill(name)
    for name in ("c", "a", "b"):
        cluster.start(name)
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    assert cluster.connect("a").drain("q") == bodies(20)


def test_a_queue_that_waits_for_its_master_says_so() -> None:
    cluster = Cluster("a", "b", "c")
    client = cluster.connect("a")
    client.declare("q")
    client.publish("q", b"1", persistent=True)
    client.read()
    cluster.kill("a")
    other = cluster.connect("b")
    other.confirm_select()
    other.publish("q", b"2")
    other.read()
    assert other.refused == {1}
    closed = other.call(methods.encode_queue_declare("q", passive=True))
    assert closed.reply_code == 404
    assert closed.reply_text == (
        "NOT_FOUND - home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"
    )
    cluster.start("a")
    assert cluster.connect("c").drain("q") == [b"1"]


def test_a_queue_waits_for_its_last_member_while_that_one_stops() -> None:
    """The member had been away: its in-sync state rests on an attempt unknown to a new replica."""
    cluster, client = prepared(on="c")
    client.publish("q", *bodies(5), persistent=True)
    client.read()
    cluster.kill("a")
    cluster.settle()
    cluster.start("a")
    cluster.settle()
    assert cluster.record("q").ring.sync_generation("a")
    cluster.coordinated = False
    cluster.change_view("q", members=("a",), in_sync=frozenset("a"))
    record = cluster.record("q")
    view = record.ring._replace(version=record.ring.version + 1)
    cluster.write(c.ChangeViews([c.ViewChange(record.queue_id, view, ("a",))]))
    assert isinstance(cluster["a"].broker.vhosts["/"].queues["q"], DownQueue)
    cluster.change_view("q")
    assert cluster.connect("c").drain("q") == bodies(5)
