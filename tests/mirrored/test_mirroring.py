"""Mirrors come and go while the queue is at work: wrapping, synchronising, catching up, leaving."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.metadata import commands as c
from mirrormq.queues.queue import Queue
from mirrormq.replication.replica_manager import TICK_MS
from mirrormq.replication.replication_limits import DEFAULT_LIMITS, ReplicationLimits
from mirrormq.replication.ring_messages import OperationBatch, SyncBatch
from mirrormq.replication.ring_operations import AppendOperation, decode
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.harness import Node, deliveries
from tests.mirrored.cluster import Cluster, MirroredClient, bodies, decode_message


def alone(**arguments: Any) -> tuple[Cluster, MirroredClient]:
    """Queue q on node a, without mirrors."""
    cluster = Cluster("a", "b", "c")
    client = cluster.connect("a")
    client.declare("q", **arguments)
    client.confirm_select()
    return cluster, client


def nodes(*names: str, batch: int) -> dict[str, object]:
    where = {"ha-mode": "nodes", "ha-params": list(names)}
    return {**where, "ha-sync-mode": "automatic", "ha-sync-batch-size": batch}


def batches(cluster: Cluster) -> list[SyncBatch]:
    return [message for _, _, message in cluster.sent if isinstance(message, SyncBatch)]


def sent_count(cluster: Cluster) -> int:
    return sum(len(run.contents) for batch in batches(cluster) for run in batch.messages)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_a_live_queue_becomes_mirrored_with_all_it_has(durable: bool, persistent: bool) -> None:
    cluster, client = alone(durable=durable)
    client.publish("q", *bodies(30), persistent=persistent)
    taken = client.consume("q", prefetch=10)
    assert len(taken) == 10
    cluster.mirror_all()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")
    client.publish("q", *bodies(5, 30), persistent=persistent)
    client.send(methods.encode_basic_ack(taken[4][0], True))
    client.read()
    assert client.confirmed == set(range(1, 36))
    cluster.check_equal("q")
    other = cluster.connect("b")
    cluster.kill("a")
    assert other.drain("q") == bodies(30, 5)


@pytest.mark.parametrize("persistent", [True, False])
def test_publishes_of_one_read_are_one_operation_and_keep_their_keys(persistent: bool) -> None:
    cluster, client = alone()
    cluster.mirror_all()
    client.send(methods.encode_queue_bind("q", "amq.topic", "#"))
    client.read()
    cluster.listening = True
    keys = ["one", "two", "two", "three"]
    mode = encode_properties(BasicProperties(delivery_mode=2 if persistent else None))
    publishes = [
        method_frame(1, methods.encode_basic_publish("amq.topic", key)) + build_frames(1, mode, b"body", 0)
        for key in keys
    ]
    client.connection.receive(b"".join(publishes))
    client.read()
    assert client.confirmed == {1, 2, 3, 4}
    sent = [
        decode(data)
        for _, _, one in cluster.sent
        if isinstance(one, OperationBatch)
        for data in one.operations
    ]
    appends = [operation for operation in sent if isinstance(operation, AppendOperation)]
    assert [len(append.contents) for append in appends] == [4, 4], "one from a to b, one from b to c"
    cluster.check_equal("q")
    other = cluster.connect("c")
    cluster.kill("a")
    received = [other.get("q", no_ack=True) for _ in keys]
    assert [one.method.routing_key for one in received if one is not None] == keys


def test_only_a_report_that_completes_an_operation_needs_a_turn() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    cluster.held |= {("b", "a"), ("c", "a")}
    client.publish("q", b"body", persistent=True)
    assert client.read() == []

    def arrive(sender: str) -> list[bool]:
        lane, broker = cluster.lanes[sender, "a"], cluster["a"].broker
        return [broker.link_message(sender, decode_message(lane.popleft())) for _ in range(len(lane))]

    assert arrive("b") == [False], "c has not reported"
    assert arrive("c") == [True]
    client.read()
    assert client.confirmed == {1}


def test_messages_that_remote_consumers_hold_are_mirrored_too() -> None:
    cluster, client = alone(durable=False)
    client.publish("q", *bodies(20))
    client.read()
    remote = cluster.connect("c")
    assert len(remote.consume("q", prefetch=8)) == 8
    cluster.mirror_all()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")
    cluster.kill("a")
    assert [body for _, body, _ in deliveries(remote.read())] == []
    remote.send(methods.encode_basic_cancel("c", False))
    remote.read()
    assert cluster.connect("b").drain("q") == bodies(20)


def test_a_queue_ceases_to_be_mirrored_and_confirms_what_waits() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    cluster.held |= {("b", "a")}
    client.publish("q", *bodies(3), persistent=True)
    client.publish("q", *bodies(3, 3))
    client.read()
    assert client.confirmed == set()
    cluster.write(c.DeletePolicy("/", "ha"))
    client.read()
    assert client.confirmed == set(range(1, 7))
    assert cluster.queue("q").mirrored is None
    assert cluster.record("q").ring.members == ("a",)
    assert client.drain("q") == bodies(6)


def test_copies_outside_every_ring_are_deleted_after_a_while() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    client.publish("q", *bodies(10), persistent=True)
    client.read()
    cluster.write(c.DeletePolicy("/", "ha"))
    assert cluster["b"].stored("q") == bodies(10)
    cluster.advance(61_000)
    assert cluster.record("q").queue_id not in cluster["b"].journal.queues
    assert client.drain("q") == bodies(10)


def test_mirrored_and_unmirrored_again_and_again_under_load() -> None:
    cluster, client = alone()
    consumer = cluster.connect("b")
    consumer.send(methods.encode_basic_qos(0, 7), methods.encode_basic_consume("q", "c"))
    got: list[bytes] = []
    for step in range(10):
        client.publish("q", *bodies(15, step * 15), persistent=step % 3 != 0)
        for _ in range(cluster.choice.randrange(5)):
            cluster.round()
        if step % 2:
            cluster.write(c.DeletePolicy("/", "ha"))
        else:
            cluster.mirror_all()
        for tag, body, redelivered in deliveries(consumer.read()):
            assert not redelivered
            got.append(body or b"")
            consumer.send(methods.encode_basic_ack(tag, False))
    cluster.mirror_all()
    while found := deliveries(consumer.read()):
        for tag, body, _ in found:
            got.append(body or b"")
            consumer.send(methods.encode_basic_ack(tag, False))
    assert got == bodies(150)
    client.read()
    assert client.confirmed == set(range(1, 151))
    cluster.check_equal("q")


def test_a_mirror_catches_up_while_the_queue_goes_on() -> None:
    cluster, client = alone()
    cluster.policy(nodes("a", "b", batch=10))
    client.publish("q", *bodies(300), persistent=True)
    client.read()
    consumer = cluster.connect("b")
    consumer.send(methods.encode_basic_qos(0, 5), methods.encode_basic_consume("q", "c"))
    cluster.policy(nodes("a", "b", "c", batch=10), settle=False)
    published, got = 300, 0
    while "c" not in cluster.record("q").ring.in_sync:
        client.publish("q", b"%d" % published, persistent=True)
        published += 1
        cluster.round()
        for tag, _, _ in deliveries(consumer.read(turn=False)):
            got += 1
            consumer.send(methods.encode_basic_ack(tag, False))
        assert published < 1_000, "it must come to an end"
    cluster.settle()
    cluster.check_equal("q")
    assert got > 0


def test_a_mirror_that_comes_back_is_sent_only_what_it_lacks() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    client.publish("q", *bodies(500), persistent=True)
    client.read()
    cluster.kill("c")
    client.publish("q", *bodies(20, 500), persistent=True)
    client.read()
    assert [client.get("q", no_ack=True) is not None for _ in range(5)] == [True] * 5
    cluster.listening = True
    cluster.start("c")
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")
    assert sent_count(cluster) == 20
    assert cluster["c"].stored("q") == bodies(515, 5)


def test_with_manual_sync_a_mirror_waits_for_the_command_or_a_drained_queue() -> None:
    cluster, client = alone()
    client.publish("q", *bodies(10), persistent=True)
    client.read()
    cluster.policy({"ha-mode": "all"})
    assert cluster.record("q").ring.in_sync == {"a"}
    client.publish("q", *bodies(5, 10), persistent=True)
    client.read()
    assert client.confirmed == set(range(1, 16)), "nobody waits for mirrors that do not count"
    queue_id = cluster.record("q").queue_id
    assert not cluster["b"].broker.replica_manager.synchronise(queue_id, True), "only the master can"
    assert cluster["a"].broker.replica_manager.synchronise(queue_id, True)
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.kill("b")
    cluster.settle()
    cluster.start("b")
    client.publish("q", *bodies(5, 15), persistent=True)
    client.read()
    client.drain("q")
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}


def test_synchronisation_can_be_called_off() -> None:
    cluster, client = alone()
    client.publish("q", *bodies(100), persistent=True)
    client.read()
    cluster.policy({"ha-mode": "all", "ha-sync-batch-size": 10})
    rings, queue_id = cluster["a"].broker.replica_manager, cluster.record("q").queue_id
    rings.synchronise(queue_id, True)
    for _ in range(6):
        cluster.round()
    rings.synchronise(queue_id, False)
    cluster.settle()
    service = cluster["a"].replica("q").service
    assert service is not None
    assert all(0 < session.progress < session.total for session in service.sessions.values())
    assert cluster.record("q").ring.in_sync == {"a"}
    rings.synchronise(queue_id, True)
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}


def test_synchronisation_keeps_the_pace_that_is_set() -> None:
    cluster, client = alone()
    client.publish("q", *[b"x" * 1000] * 50, persistent=True)
    client.read()
    settings = cluster["a"].broker.settings
    object.__setattr__(settings, "mirroring_sync_max_throughput_bytes", 10_000)
    cluster.policy(nodes("a", "b", batch=5))
    assert cluster.record("q").ring.in_sync == {"a"}
    waited = 0
    while cluster.record("q").ring.in_sync == {"a"}:
        cluster.advance(100)
        waited += 100
        assert waited < 10_000
    assert 4_000 <= waited <= 6_000


def test_memory_that_is_short_pauses_synchronisation() -> None:
    cluster, client = alone()
    client.publish("q", *bodies(30), persistent=True)
    client.read()
    cluster["a"].broker.alarms.set("memory", True)
    cluster.mirror_all()
    assert cluster.record("q").ring.in_sync == {"a"}
    cluster["a"].broker.alarms.set("memory", False)
    cluster.settle()
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}


def test_a_mirror_that_is_too_late_does_not_count_until_it_keeps_pace_again() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    cluster.held |= {("b", "a")}
    client.publish("q", b"1", persistent=True)
    client.read()
    for _ in range(DEFAULT_LIMITS.mirror_late_ms // TICK_MS + 2):
        assert client.confirmed == set() or cluster.record("q").ring.in_sync == {"a", "c"}
        cluster.advance(TICK_MS)
    client.read()
    assert client.confirmed == {1}
    ring = cluster.record("q").ring
    assert (ring.members, ring.in_sync) == (("a", "b", "c"), frozenset({"a", "c"}))
    client.publish("q", b"2", persistent=True)
    client.read()
    assert client.confirmed == {1, 2}, "it does not even stand in the way"
    cluster.held.clear()
    cluster.settle()
    cluster.advance(TICK_MS)
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")


def test_a_mirror_in_the_middle_that_passes_nothing_on_is_the_one_to_blame() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    cluster.held |= {("a", "b")}
    client.publish("q", b"1", persistent=True)
    client.read()
    for _ in range(DEFAULT_LIMITS.mirror_late_ms // TICK_MS + 2):
        cluster.advance(TICK_MS)
    client.read()
    assert cluster.record("q").ring.in_sync == {"a", "c"}
    assert client.confirmed == {1}


def test_a_mirror_that_is_hopelessly_behind_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = BrokerLimits(ReplicationLimits(mirror_excused_operations=10))
    monkeypatch.setattr(Node, "limits", limits)
    cluster, client = alone()
    cluster.mirror_all()
    client.publish("q", *bodies(50), persistent=True)
    client.read()
    cluster.held |= {("a", "b"), ("c", "b")}
    client.publish("q", b"late", persistent=True)
    for _ in range(DEFAULT_LIMITS.mirror_late_ms // TICK_MS + 2):
        cluster.advance(TICK_MS)
    for number in range(30):
        client.publish("q", b"%d" % (51 + number), persistent=True)
        client.read()
    cluster.advance(TICK_MS)
    assert cluster["a"].replica("q").ring.log.stable >= 30, "no log is kept for it"
    cluster.held.clear()
    cluster.settle()
    cluster.advance(TICK_MS)
    assert cluster.record("q").ring.in_sync == {"a", "b", "c"}
    cluster.check_equal("q")


def test_a_link_that_was_cut_for_a_moment_loses_nothing() -> None:
    cluster, client = alone()
    cluster.mirror_all()
    cluster.coordinated = False
    for one, other in (("a", "b"), ("b", "c"), ("a", "c")):
        client.publish("q", *bodies(10), persistent=True)
        cluster.round()
        cluster.cut(one, other)
        client.publish("q", *bodies(10), persistent=True)
        cluster.settle()
        cluster.join(one, other)
        cluster.settle()
    client.read()
    assert client.confirmed == set(range(1, 61))
    cluster.check_equal("q")


def test_the_master_of_a_queue_with_a_ring_is_a_queue_and_others_have_its_face() -> None:
    cluster, _ = alone()
    cluster.mirror_all()
    kinds = {name: isinstance(cluster[name].queue_object("q"), Queue) for name in cluster.members}
    assert kinds == {"a": True, "b": False, "c": False}
