"""A confirm of a mirrored queue: when it comes, and what it promises."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.replication.replication_limits import ReplicationLimits
from mirrormq.wire import methods
from tests.harness import Node
from tests.mirrored.cluster import Cluster, MirroredClient


def prepared(**arguments: Any) -> tuple[Cluster, MirroredClient]:
    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    client = cluster.connect("a")
    client.declare("q", **arguments)
    client.confirm_select()
    return cluster, client


def test_a_queue_is_born_with_its_mirrors() -> None:
    cluster, _ = prepared()
    ring = cluster.record("q").ring
    assert ring.members == ("a", "b", "c")
    assert ring.in_sync == {"a", "b", "c"}


def test_a_confirmed_message_is_on_every_disk() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2", b"3", persistent=True)
    client.read()
    assert client.confirmed == {1, 2, 3}
    for name in cluster.members:
        cluster[name].disk.crash()
        cluster[name].boot()
        assert cluster[name].stored("q") == [b"1", b"2", b"3"], name


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("late", ["b", "c"])
def test_no_confirm_before_the_last_mirror_has_spoken(late: str, persistent: bool) -> None:
    cluster, client = prepared()
    cluster.held.add((late, "a"))
    client.publish("q", b"1", persistent=persistent)
    client.read()
    assert client.confirmed == set()
    cluster.held.clear()
    client.read()
    assert client.confirmed == {1}


def test_operations_leave_before_the_disk_is_touched() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", persistent=True)
    cluster["a"].broker.turn(commit=False)
    assert cluster.lanes["a", "b"], "b can write while a does"
    assert client.read(turn=False) == []


def test_messages_published_on_any_node_reach_all() -> None:
    cluster, _ = prepared()
    clients = [cluster.connect(name) for name in ("a", "b", "c")]
    for client in clients:
        client.confirm_select()
        client.publish("q", b"from " + client.node.name.encode(), persistent=True)
    for client in clients:
        client.read()
        assert client.confirmed == {1}
    cluster.check_equal("q")
    assert sorted(clients[1].drain("q")) == [b"from a", b"from b", b"from c"]


def test_consumed_messages_leave_every_node() -> None:
    cluster, client = prepared()
    client.publish("q", *[b"%d" % number for number in range(50)], persistent=True)
    taken = client.consume("q", prefetch=20)
    assert len(taken) == 20
    client.send(methods.encode_basic_ack(taken[9][0], True))
    client.read()
    cluster.check_equal("q")
    for member in cluster.living():
        assert len(member.stored("q")) == 40


def test_a_purge_reaches_every_node_and_leaves_what_is_out() -> None:
    cluster, client = prepared()
    client.publish("q", *[b"%d" % number for number in range(50)], persistent=True)
    client.read()
    assert client.get("q") is not None
    assert client.call(methods.encode_queue_purge("q")).message_count == 49
    cluster.settle()
    cluster.check_equal("q")
    assert cluster["b"].stored("q") == [b"0"]


def test_a_deleted_queue_leaves_no_copy() -> None:
    cluster, client = prepared()
    client.publish("q", b"1", b"2", persistent=True)
    client.read()
    queue_id = cluster.record("q").queue_id
    assert isinstance(client.call(methods.encode_queue_delete("q")), methods.QueueDeleteOk)
    for member in cluster.living():
        assert queue_id not in member.journal.queues
        assert queue_id not in member.broker.replica_manager.replicas


def test_a_transaction_is_committed_when_every_mirror_has_it() -> None:
    cluster, _ = prepared()
    client = cluster.connect("a")
    client.call(methods.encode_tx_select())
    client.publish("q", b"1", b"2", persistent=True)
    cluster.held.add(("c", "a"))
    client.send(methods.encode_tx_commit())
    assert client.read() == []
    cluster.held.clear()
    assert isinstance(client.methods()[-1], methods.TxCommitOk)
    assert cluster["c"].stored("q") == [b"1", b"2"]


def test_publishers_wait_when_the_ring_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = BrokerLimits(ReplicationLimits(ring_behind_operations=5))
    monkeypatch.setattr(Node, "limits", limits)
    cluster, client = prepared()
    cluster.held.add(("b", "a"))
    for number in range(20):
        client.publish("q", b"%d" % number)
    client.read()
    assert cluster.counts("q") == (6, 0), "the rest waits in the socket"
    cluster.held.clear()
    client.read()
    assert client.confirmed == set(range(1, 21))


def test_exclusive_queues_are_not_mirrored() -> None:
    cluster, client = prepared()
    client.send(methods.encode_queue_declare("mine", exclusive=True))
    client.read()
    assert cluster.record("mine").ring.members == ("a",)
