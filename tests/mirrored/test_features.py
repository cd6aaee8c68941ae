"""Everything else that a queue can do, it can do mirrored: and the next master goes on with it."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.replication.queue_roles import CONSUMERS_RETURN_MS
from mirrormq.wire import methods
from tests.harness import Node, deliveries
from tests.mirrored.cluster import Cluster, MirroredClient, bodies


def prepared(**arguments: Any) -> tuple[Cluster, MirroredClient]:
    """Queue q with its master on a; a client of b."""
    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    cluster.connect("a").declare("q", **arguments)
    client = cluster.connect("b")
    client.confirm_select()
    return cluster, client


@pytest.mark.parametrize("persistent", [True, False])
def test_priorities_survive_the_master(persistent: bool) -> None:
    cluster, client = prepared(max_priority=5)
    for number, priority in enumerate((1, 5, 0, 3, 9, 2)):
        client.publish("q", b"%d" % number, persistent=persistent, priority=priority)
    client.read()
    cluster.check_equal("q")
    cluster.kill("a")
    assert client.drain("q") == [b"1", b"4", b"3", b"5", b"0", b"2"]


@pytest.mark.parametrize("persistent", [True, False])
def test_messages_expire_on_time_on_any_master(persistent: bool) -> None:
    cluster, client = prepared(message_ttl=10_000)
    client.publish("q", b"old", persistent=persistent)
    client.read()
    cluster.advance(6_000)
    client.publish("q", b"new", persistent=persistent)
    client.read()
    cluster.kill("a")
    cluster.advance(5_000)
    cluster.check_equal("q")
    assert client.drain("q") == [b"new"]


def test_a_message_that_expires_leaves_every_node() -> None:
    cluster, client = prepared()
    client.publish("q", b"short", persistent=True, expiration="100")
    client.publish("q", b"long", persistent=True)
    client.read()
    cluster.advance(200)
    cluster.check_equal("q")
    assert cluster["c"].stored("q") == [b"long"]


def test_dead_letters_go_from_one_mirrored_queue_to_another() -> None:
    cluster, client = prepared(dead_letter_exchange="", dead_letter_routing_key="graves", message_ttl=100)
    cluster.connect("c").declare("graves")
    client.publish("q", *bodies(5), persistent=True)
    client.read()
    taken = client.get("q")
    assert taken is not None
    client.send(methods.encode_basic_reject(taken.method.delivery_tag, False))
    client.read()
    cluster.advance(200)
    cluster.check_equal("graves")
    assert cluster.master("graves").name == "c"
    cluster.kill("c")
    assert client.drain("graves") == bodies(5)


def test_a_short_queue_drops_its_head_everywhere() -> None:
    cluster, client = prepared(max_length=3)
    client.publish("q", *bodies(10), persistent=True)
    client.read()
    assert client.confirmed == set(range(1, 11))
    cluster.check_equal("q")
    cluster.kill("a")
    client.publish("q", b"10", persistent=True)
    client.read()
    assert client.drain("q") == bodies(3, 8)


def test_a_full_queue_refuses_on_any_master() -> None:
    cluster, client = prepared(max_length=3, overflow="reject-publish")
    client.publish("q", *bodies(5), persistent=True)
    client.read()
    assert (client.confirmed, client.refused) == ({1, 2, 3}, {4, 5})
    cluster.kill("a")
    client.publish("q", b"more", persistent=True)
    client.read()
    assert client.refused == {4, 5, 6}
    assert client.drain("q") == bodies(3)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_lazy_queue_keeps_little_in_memory_on_any_node(persistent: bool) -> None:
    cluster, client = prepared(queue_mode="lazy")
    for start in range(0, 1_000, 100):
        client.publish("q", *bodies(100, start), persistent=persistent)
        client.read()
    for member in cluster.living():
        assert member.budget.used_bytes < 400 * 500, member.name
    cluster.check_equal("q")
    cluster.kill("a")
    assert client.drain("q") == bodies(1_000)


def test_a_long_transient_queue_is_written_out_by_its_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "limits", BrokerLimits(queues=QueueLimits(mirror_memory_messages=100)))
    cluster, client = prepared(durable=False)
    client.publish("q", *bodies(1_000))
    client.read()
    copy = cluster["b"].replica("q").copy
    assert copy is not None
    assert len(copy._memory) <= 100
    cluster.check_equal("q")
    cluster.kill("a")
    assert client.drain("q") == bodies(1_000)


def test_the_single_active_consumer_is_one_after_a_failover_too() -> None:
    cluster, client = prepared(single_active_consumer=True)
    other = cluster.connect("c")
    client.consume("q", "first", prefetch=1)
    other.consume("q", "second", prefetch=1)
    cluster.kill("a")
    cluster.settle()
    client.publish("q", *bodies(4), persistent=True)
    active = [deliveries(one.read()) for one in (client, other)]
    assert sorted(len(found) for found in active) == [0, 1]


def test_an_exclusive_consumer_keeps_the_queue_to_itself_after_a_failover() -> None:
    cluster, client = prepared()
    client.send(methods.encode_basic_consume("q", "mine", exclusive=True))
    client.read()
    cluster.kill("a")
    cluster.settle()
    refused = cluster.connect("c").call(methods.encode_basic_consume("q", "other"))
    assert refused.reply_code == 403


def test_an_auto_delete_queue_goes_with_its_last_consumer() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    client = cluster.connect("b")
    client.send(methods.encode_queue_declare("q", auto_delete=True))
    client.read()
    consumer = cluster.connect("c")
    consumer.consume("q", "c")
    queue_id = cluster.record("q").queue_id
    cluster.kill("b")
    cluster.settle()
    assert cluster.record("q").ring.master == "a"
    consumer.send(methods.encode_basic_cancel("c", False))
    consumer.read()
    for member in cluster.living():
        assert not member.metadata.state.queues
        assert queue_id not in member.broker.replica_manager.replicas
        assert queue_id not in member.journal.queues


def auto_deleted(*, mirrored_first: bool = True) -> Cluster:
    """Queue q, which goes with its last consumer, and its only consumer, both on b."""
    cluster = Cluster("a", "b", "c")
    if mirrored_first:
        cluster.mirror_all()
    client = cluster.connect("b")
    client.send(methods.encode_queue_declare("q", auto_delete=True))
    client.read()
    client.consume("q", "c")
    cluster.mirror_all()
    return cluster


@pytest.mark.parametrize("mirrored_first", [True, False])
def test_an_auto_delete_queue_goes_if_its_consumers_are_lost_with_its_master(mirrored_first: bool) -> None:
    cluster = auto_deleted(mirrored_first=mirrored_first)
    cluster.kill("b")
    cluster.advance(CONSUMERS_RETURN_MS // 2)
    assert cluster.record("q").ring.master == "a", "clients of other nodes may be on their way"
    cluster.advance(CONSUMERS_RETURN_MS)
    for member in cluster.living():
        assert not member.metadata.state.queues


def test_an_auto_delete_queue_stays_for_a_consumer_that_comes_back() -> None:
    cluster = auto_deleted()
    cluster.kill("b")
    consumer = cluster.connect("c")
    consumer.consume("q", "c")
    cluster.advance(2 * CONSUMERS_RETURN_MS)
    assert cluster.record("q").ring.master == "a"
    consumer.send(methods.encode_basic_cancel("c", False))
    consumer.read()
    for member in cluster.living():
        assert not member.metadata.state.queues


def test_an_auto_delete_queue_that_was_never_consumed_from_survives_its_master() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    client = cluster.connect("b")
    client.send(methods.encode_queue_declare("q", auto_delete=True))
    client.read()
    cluster.kill("b")
    cluster.advance(2 * CONSUMERS_RETURN_MS)
    assert cluster.record("q").ring.master == "a"


def test_rejected_and_requeued_messages_keep_their_places_on_every_node() -> None:
    cluster, client = prepared()
    client.publish("q", *bodies(10), persistent=True)
    taken = client.consume("q", prefetch=5)
    client.send(methods.encode_basic_nack(taken[2][0], False, True))
    client.send(methods.encode_basic_cancel("c", False))
    client.send(methods.encode_basic_recover(True))
    client.read()
    cluster.check_equal("q")
    cluster.kill("a")
    assert client.drain("q") == bodies(10)


def test_acknowledgements_of_messages_in_any_order_leave_the_right_ones() -> None:
    cluster, client = prepared()
    client.publish("q", *bodies(40), persistent=True)
    taken = client.consume("q")
    tags = [tag for tag, _, _ in taken]
    cluster.choice.shuffle(tags)
    for tag in tags[:25]:
        client.send(methods.encode_basic_ack(tag, False))
    client.read()
    cluster.check_equal("q")
    left = sorted(body or b"" for tag, body, _ in taken if tag in tags[25:])
    cluster.kill("a")
    client.send(methods.encode_basic_cancel("c", False), methods.encode_basic_recover(True))
    client.read()
    assert sorted(cluster.connect("c").drain("q")) == left


def test_policies_of_a_live_queue_hold_for_the_next_master() -> None:
    cluster, client = prepared()
    client.publish("q", *bodies(10), persistent=True)
    client.read()
    cluster.mirror_all(**{"max-length": 4})
    assert cluster.counts("q") == (4, 0)
    cluster.check_equal("q")
    cluster.kill("a")
    client.publish("q", b"10", persistent=True)
    client.read()
    assert cluster.counts("q") == (4, 0)


def test_dead_letters_do_not_overtake_publishes_that_are_handed_over() -> None:
    """Here a message pushes another one out, which pushes a third one out, which comes back to the first
    queue: if that happened at once, what is still to be handed over would be taken for known."""
    cluster, client = prepared(max_length=1, dead_letter_exchange="", dead_letter_routing_key="x")
    cluster.connect("b").declare("x", max_length=1, dead_letter_exchange="", dead_letter_routing_key="q")
    client.publish("x", b"old", persistent=True)
    client.read()
    for number in range(3):
        client.publish("q", b"%d" % number, persistent=True, message_id=str(number))
    cluster.kill("a")
    client.read()
    assert client.drain("q") == [b"old"]
    assert client.drain("x") == [b"2"]
