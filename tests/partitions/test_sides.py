"""Behaviour of each side of a partitioned cluster, and its display to operators."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from mirrormq.testing.network_namespaces import NetworkNamespaces
from mirrormq.testing.partitioned_cluster import PartitionedCluster
from tests.management.http import Client
from tests.metrics.scene import scrape
from tests.seeds.seed_clients import channel
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    NetworkNamespaces.obstacle() is not None, reason=str(NetworkNamespaces.obstacle())
)

PERSISTENT = pika.BasicProperties(delivery_mode=2)
LOST = "another side of the cluster has won"
"""Log line of a node that discards its side. If links return one by one, both sides may do so in turn."""


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[PartitionedCluster]:
    mode = request.param
    with PartitionedCluster(3, conf=f"cluster_partition_handling = {mode}\n", mirror_all=True) as started:
        yield started


def log_of(cluster: PartitionedCluster, index: int) -> str:
    return (cluster.directory / cluster.name(index) / "log" / "node.log").read_text()


def serves(cluster: PartitionedCluster, index: int) -> bool:
    try:
        with channel(cluster, index) as opened:
            return bool(opened.is_open)
    except (pika.exceptions.AMQPError, OSError):
        return False


def sent(cluster: PartitionedCluster, index: int, body: bytes) -> bool:
    """Publish a message to the queue and wait for its confirm."""
    try:
        with channel(cluster, index) as opened:
            opened.basic_publish("", "q", body, PERSISTENT)
        return True
    except (pika.exceptions.AMQPError, OSError):
        return False


def count(cluster: PartitionedCluster, index: int, queue: str) -> int:
    with channel(cluster, index) as opened:
        return int(opened.queue_declare(queue, passive=True).method.message_count)


@pytest.mark.parametrize("cluster", ["pause_minority"], indirect=True)
def test_the_minority_stops_and_comes_back_with_everything(cluster: PartitionedCluster) -> None:
    with channel(cluster, 0) as opened:
        opened.queue_declare("q", durable=True)
        opened.basic_publish("", "q", b"before", PERSISTENT)
    cluster.part([0], [1, 2])
    until(lambda: not serves(cluster, 0))

    def published() -> bool:
        try:
            with channel(cluster, 1) as opened:
                opened.basic_publish("", "q", b"meanwhile", PERSISTENT)
            return True
        except pika.exceptions.AMQPError:
            return False

    until(published)
    assert not serves(cluster, 0)
    assert "Cluster minority/secondary status detected - awaiting recovery" in log_of(cluster, 0)
    cluster.heal()
    until(lambda: serves(cluster, 0))
    until(lambda: count(cluster, 0, "q") == 2)


@pytest.mark.parametrize("cluster", ["autoheal"], indirect=True)
def test_orphans_that_are_kept_are_listed_exported_restored_and_deleted(
    cluster: PartitionedCluster, tmp_path: Path
) -> None:
    keep = '{"ha-mode":"all","ha-orphans":"keep"}'
    cluster.ctl("set_policy", "ha-all", ".*", keep, "--apply-to", "queues")
    with channel(cluster, 0) as opened:
        opened.queue_declare("q", durable=True)
    cluster.part([0], [1, 2])
    until(lambda: sent(cluster, 0, b"left"))
    until(lambda: sent(cluster, 1, b"right"))
    cluster.heal()

    def listed() -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = json.loads(
                cluster.ctl("-q", "list_orphans", "--formatter", "json", node=1)
            )
            return found
        except RuntimeError:
            return []

    rows = until(listed)
    assert [(row["queue"], row["messages"]) for row in rows] == [("q", 1)]
    backing_queue = next(index for index in range(3) if cluster.name(index) == rows[0]["node"])
    until(lambda: serves(cluster, backing_queue))
    reported = scrape(cluster.management_port(backing_queue))
    assert reported.values("mirrormq_orphan_messages") == reported.values("mirrormq_orphan_queues") == [1]
    file = tmp_path / "orphans.json"
    cluster.ctl("export_orphans", str(file), node=backing_queue)
    exported = json.loads(file.read_text())
    assert base64.b64decode(exported["body"]) in (b"left", b"right")
    before = count(cluster, backing_queue, "q")
    cluster.ctl("restore_orphans", "all", node=backing_queue)
    until(lambda: count(cluster, backing_queue, "q") == before + 1)
    until(lambda: not listed())
    with pytest.raises(RuntimeError, match="keeps no batch"):
        cluster.ctl("delete_orphans", "1", node=backing_queue)


@pytest.mark.parametrize("cluster", ["autoheal"], indirect=True)
def test_both_sides_go_on_and_orphans_say_where_they_were(cluster: PartitionedCluster) -> None:
    with channel(cluster, 0) as opened:
        opened.queue_declare("q", durable=True)
    cluster.part([0], [1, 2])

    until(lambda: sent(cluster, 0, b"left"))
    until(lambda: sent(cluster, 1, b"right"))
    cluster.heal()

    def together() -> bool:
        try:
            return all(count(cluster, index, "q") >= 2 for index in range(3))
        except (pika.exceptions.AMQPError, OSError):
            return False

    until(together)
    bodies: dict[bytes, dict[str, object]] = {}
    with channel(cluster, 2) as opened:
        while (got := opened.basic_get("q", auto_ack=True))[0] is not None:
            bodies[got[2]] = got[1].headers or {}
    assert {b"left", b"right"} <= set(bodies)
    marked = {body for body, headers in bodies.items() if "x-orphaned-from" in headers}
    losers = {index for index in range(3) if LOST in log_of(cluster, index)}
    sides = {b"left": {0}, b"right": {1, 2}}
    assert marked, "one side has lost"
    assert all(sides[body] & losers for body in marked), (marked, losers)


@pytest.mark.parametrize("cluster", ["ignore"], indirect=True)
def test_no_node_restarts_until_an_operator_restarts_a_side(cluster: PartitionedCluster) -> None:
    with channel(cluster, 0) as opened:
        opened.queue_declare("q", durable=True)
    cluster.part([0], [1, 2])
    until(lambda: sent(cluster, 0, b"left"))
    until(lambda: sent(cluster, 1, b"right"))
    cluster.heal()

    def partitions(index: int) -> dict[str, list[str]]:
        status = json.loads(cluster.ctl("-q", "cluster_status", "--formatter", "json", node=index))
        found: dict[str, list[str]] = status["partitions"]
        return found

    until(lambda: partitions(0) and partitions(1))
    assert cluster.name(0) in str(partitions(1))
    timeline = Client(cluster.management_port(1))
    apart = f"partitioned from {cluster.name(0)}"
    until(lambda: apart in [event["text"] for event in timeline.get("mirrormq/timeline")])
    assert scrape(cluster.management_port(1)).values("mirrormq_cluster_partitions") == [1]
    assert sent(cluster, 0, b"left again") and sent(cluster, 2, b"right again"), "each side still goes on"
    cluster.stop(0)
    cluster.start(0)
    until(lambda: all(not partitions(index) for index in range(3)))
    until(lambda: all(count(cluster, index, "q") == 4 for index in range(3)))
