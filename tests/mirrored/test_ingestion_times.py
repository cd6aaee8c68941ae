"""Ingestion time: the master gives it at the publish, and every copy keeps it.

The clocks of the nodes differ by minutes, so that a time of another node's clock is seen.
"""

from __future__ import annotations

import msgspec
import pytest

from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.replication import ring_operations
from mirrormq.replication.ring_operations import AppendOperation
from tests.harness import Node
from tests.mirrored.cluster import Cluster, Member, MirroredClient, bodies
from tests.mirrored.test_repairs import garble

COUNT = 12


def times(member: Member) -> list[int]:
    """Return the ingestion times of queue q on one node, oldest message first."""
    replica = member.replica("q")
    if replica.backing is not None:
        return [
            message.ingested_ms for message in replica.backing.load(list(replica.backing.held().numbers()))
        ]
    assert replica.copy is not None
    return [message.ingested_ms for message in replica.copy.messages()]


def publish(cluster: Cluster, client: MirroredClient, *, persistent: bool) -> list[int]:
    """Publish three times and return the times that the master's clock had."""
    expected: list[int] = []
    for first in range(0, COUNT, 4):
        cluster.advance(1000)
        client.publish("q", *bodies(4, first), persistent=persistent)
        cluster.settle()
        expected += [cluster.master("q").clock.now_ms] * 4
    return expected


def prepared() -> tuple[Cluster, MirroredClient]:
    cluster = Cluster("a", "b", "c")
    for minutes, name in enumerate("abc"):
        cluster[name].clock.now_ms += minutes * 60_000
    cluster.mirror_all()
    client = cluster.connect("a")
    client.declare("q")
    cluster.settle()
    return cluster, client


@pytest.mark.parametrize("persistent", [True, False])
def test_every_mirror_has_the_time_of_the_master(persistent: bool) -> None:
    cluster, client = prepared()
    expected = publish(cluster, client, persistent=persistent)
    assert {name: times(cluster[name]) for name in "abc"} == dict.fromkeys("abc", expected)


@pytest.mark.parametrize("persistent", [True, False])
def test_promotion_and_synchronisation_keep_the_times(persistent: bool) -> None:
    cluster, client = prepared()
    expected = publish(cluster, client, persistent=persistent)
    cluster.kill("a")
    cluster.settle()
    assert cluster.record("q").ring.master == "b"
    cluster.start("a")
    cluster.advance(5000)
    cluster.check_equal("q")
    assert {name: times(cluster[name]) for name in "abc"} == dict.fromkeys("abc", expected)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_new_mirror_gets_the_times_of_messages_from_before(persistent: bool) -> None:
    cluster, client = prepared()
    cluster.policy({"ha-mode": "exactly", "ha-params": 1})
    expected = publish(cluster, client, persistent=persistent)
    cluster.advance(5000)
    cluster.mirror_all()
    assert {name: times(cluster[name]) for name in "abc"} == dict.fromkeys("abc", expected)


def test_page_out_keeps_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Node,
        "limits",
        BrokerLimits(
            queues=QueueLimits(
                head_stored_messages=3, head_messages=3, page_messages=3, mirror_memory_messages=3
            )
        ),
    )
    cluster, client = prepared()
    expected = publish(cluster, client, persistent=False)
    expected += publish(cluster, client, persistent=True)
    for name in "abc":
        assert times(cluster[name]) == expected, name
        assert cluster[name].journal.queue(cluster.record("q").queue_id).paged.count


@pytest.mark.parametrize("node", ["a", "b"])
def test_repair_keeps_the_time(node: str) -> None:
    cluster, client = prepared()
    expected = publish(cluster, client, persistent=True)
    for member in cluster.living():
        member.journal.writer.seal()
    garble(cluster[node], 7)
    cluster.advance(5000)
    assert cluster[node].journal.damage.repaired_total == 1
    assert times(cluster[node]) == expected


OlderAppend = msgspec.defstruct(
    "OlderAppend",
    [
        (field.name, field.type) if field.required else (field.name, field.type, field.default_factory())
        if field.default_factory is not msgspec.NODEFAULT
        else (field.name, field.type, field.default)
        for field in msgspec.structs.fields(AppendOperation)
        if field.name != "ingested_ms"
    ],
    frozen=True,
    array_like=True,
    tag="a",
)  # fmt: skip
"""Append operation as nodes know it that do not send the time."""


def test_a_node_that_does_not_know_the_time_reads_the_operation() -> None:
    sent = AppendOperation(5, [b"p"], True, 0, [b"c", b"d"], "a", 3, {"x": 1}, [77])
    read = msgspec.msgpack.decode(ring_operations.encode(sent), type=OlderAppend)
    assert msgspec.structs.astuple(read) == msgspec.structs.astuple(sent)[:-1]


def test_a_mirror_takes_its_own_time_if_the_master_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, client = prepared()

    def older(operation: msgspec.Struct) -> bytes:
        if isinstance(operation, AppendOperation):
            operation = OlderAppend(*msgspec.structs.astuple(operation)[:-1])
        return msgspec.msgpack.encode(operation)

    monkeypatch.setattr("mirrormq.replication.replicating_backing.encode", older)
    expected = publish(cluster, client, persistent=True)
    for minutes, name in enumerate("abc"):
        assert times(cluster[name]) == [each + minutes * 60_000 for each in expected]
