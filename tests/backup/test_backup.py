"""Backup of a running three-node cluster, restored into empty clusters, with real nodes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pika
import pytest

from mirrormq.backup.backup_files import BackupReader
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.backup.restore_run import restore
from mirrormq.spark.client.range_client import RangeAnswer
from mirrormq.testing import Cluster
from mirrormq.wire.fields import Table
from tests.backup.contents import (
    LEASED,
    api,
    damage,
    definitions,
    fill,
    hold,
    ingestion_times,
    messages,
    mirrormq,
    uris,
)
from tests.ranges.range_requests import Asker
from tests.waiting import until

QUEUES = ("orders", "ranked", "once", "spent", "memory", "limited")


class Source:
    """Cluster with contents, and its backup."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        fill(cluster)
        holder = hold(cluster)
        until(lambda: all(self._synchronised(name) for name in QUEUES), "all mirrors are synchronised")
        result = mirrormq("backup", str(directory), *uris(cluster, 3))
        assert result.returncode == 0, result.stderr
        self.said = result.stdout
        self.messages = {name: messages(cluster, name) for name in QUEUES}
        self.times = {name: ingestion_times(cluster, name) for name in QUEUES}
        self.leased = holder.bodies("orders", holder.take("orders", "reader", 2, LEASED))
        self.definitions = definitions(cluster)
        holder.close()

    def _synchronised(self, queue: str) -> bool:
        return len(api(self.cluster, f"queues/%2F/{queue}")["synchronised_slave_nodes"]) == 2


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        yield Source(cluster, tmp_path_factory.mktemp("backup") / "monday")


@pytest.fixture(scope="module")
def restored(source: Source) -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        result = mirrormq("restore", str(source.directory), *uris(cluster, 2))
        assert result.returncode == 0, result.stderr
        assert "counts and digests agree" in result.stdout
        yield cluster


def test_the_backup_counts_its_messages(source: Source) -> None:
    count = sum(map(len, source.messages.values())) + 1  # One message in the second vhost.
    assert source.said == f"Backed up 7 queues with {count} messages to {source.directory}.\n"


def test_the_files_are_for_their_owner_only(source: Source) -> None:
    modes = {path.name: path.stat().st_mode & 0o077 for path in source.directory.rglob("*")}
    assert set(modes.values()) == {0}, modes


@pytest.mark.parametrize("queue", QUEUES)
def test_messages_are_the_same_in_the_same_order(source: Source, restored: Cluster, queue: str) -> None:
    found = messages(restored, queue)
    assert len(found) == len(source.messages[queue])
    assert found == source.messages[queue]


@pytest.mark.parametrize("queue", QUEUES)
def test_ingestion_times_are_the_same(source: Source, restored: Cluster, queue: str) -> None:
    assert all(source.times[queue])
    assert ingestion_times(restored, queue) == source.times[queue]


def test_definitions_are_the_same(source: Source, restored: Cluster) -> None:
    found = definitions(restored)
    assert {**found, "global_parameters": []} == {**source.definitions, "global_parameters": []}


def test_unacknowledged_messages_beyond_a_length_limit_are_kept(source: Source) -> None:
    assert [body for _, body in source.messages["limited"]] == [b"limited %d" % each for each in range(10)]


def test_a_lease_has_the_same_messages_under_the_same_number(source: Source, restored: Cluster) -> None:
    asker = Asker(restored.uri(1))
    assert asker.bodies("orders", asker.take("orders", "reader", 2, LEASED)) == source.leased
    (lease,) = asker.leases("orders")
    assert (lease.name, lease.number, lease.user, lease.count) == ("reader", 2, "guest", LEASED)
    asker.close()


def test_publish_ids_are_known(restored: Cluster) -> None:
    """Queue `spent` knows its producer without holding any message of it."""
    asker = Asker(restored.uri(0))
    asker.channel.confirm_delivery()
    for queue, known in (("once", 20), ("spent", 9)):
        before = asker.extent(queue).ready
        for number in (known - 1, known, known + 1):
            headers = {"x-producer": "importer", "x-publish-id": number}
            properties = pika.BasicProperties(delivery_mode=2, headers=headers)
            asker.channel.basic_publish("", queue, b"again %d" % number, properties)
        assert asker.extent(queue).ready == before + 1
        asker.channel.basic_get(queue, auto_ack=True)
    asker.close()


def test_restored_messages_and_publish_ids_survive_a_restart_of_all_nodes(source: Source) -> None:
    with Cluster(nodes=1) as cluster:
        assert mirrormq("restore", str(source.directory), *uris(cluster, 1)).returncode == 0
        cluster.kill(0)
        cluster.start(0)
        for queue in ("orders", "once", "spent", "limited"):
            assert messages(cluster, queue) == source.messages[queue]
        asker = Asker(cluster.uri(0))
        asker.channel.confirm_delivery()
        headers = {"x-producer": "importer", "x-publish-id": 9}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        asker.channel.basic_publish("", "spent", b"again", properties)
        assert asker.extent("spent").ready == 0
        asker.close()


def test_a_cluster_with_queues_is_refused(source: Source, restored: Cluster) -> None:
    result = mirrormq("restore", str(source.directory), *uris(restored, 1))
    assert (result.returncode, result.stdout) == (1, "")
    assert "has 7 queues; restore into a cluster without queues" in result.stderr


class BrokenAccess(ClusterAccess):
    """Access that breaks after some batches of messages, as if the program were killed."""

    batches_left = 3

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        if headers["ask"].value == b"restore" and headers["part"].value == b"messages":
            self.batches_left -= 1
            if not self.batches_left:
                raise KeyboardInterrupt
        return super().ask(headers, body)


def test_an_interrupted_restore_continues(source: Source) -> None:
    """Run again, the restore adds the messages that are missing. Until then no binding routes to a queue."""
    with Cluster(nodes=1) as cluster:
        with BrokenAccess([cluster.uri(0)], 60.0) as access, pytest.raises(KeyboardInterrupt):
            restore(access, BackupReader(source.directory), lambda text: None, batch_rows=500)
        assert len(messages(cluster, "orders")) == 1000
        assert api(cluster, "exchanges/%2F/events/bindings/source") == []
        result = mirrormq("restore", str(source.directory), *uris(cluster, 1))
        assert result.returncode == 0, result.stderr
        for queue in QUEUES:
            assert messages(cluster, queue) == source.messages[queue]
        names = {row["name"] for row in api(cluster, "global-parameters")}
        assert "mirrormq_restore" not in names


def test_a_lost_reply_adds_no_message_twice(source: Source) -> None:
    """A batch that was stored is refused when it is repeated, and the restore continues after it."""
    with Cluster(nodes=1) as cluster, RepeatingAccess([cluster.uri(0)], 60.0) as access:
        restore(access, BackupReader(source.directory), lambda text: None)
        assert access.repeated
        for queue in QUEUES:
            assert messages(cluster, queue) == source.messages[queue]


class RepeatingAccess(ClusterAccess):
    """Access that loses the reply to the first batch and sends it again."""

    repeated = False

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        if not self.repeated and headers["ask"].value == b"restore" and headers["part"].value == b"messages":
            self.repeated = True
            super().ask(headers, body)
        return super().ask(headers, body)


def test_a_continued_restore_refuses_other_messages(source: Source) -> None:
    with Cluster(nodes=1) as cluster:
        marker = {"value": _backup_id(source)}
        api(cluster, "global-parameters/mirrormq_restore", marker, "PUT")
        asker = Asker(cluster.uri(0))
        asker.channel.queue_declare("orders", durable=True)
        asker.publish("orders", b"not of the backup")
        asker.close()
        result = mirrormq("restore", str(source.directory), *uris(cluster, 1))
        assert result.returncode == 1
        assert "queue 'orders' in vhost '/' holds messages that are not of this backup" in result.stderr


def _backup_id(source: Source) -> str:
    return str(json.loads((source.directory / "manifest.json").read_text())["id"])


def test_only_an_administrator_may(source: Source, tmp_path: Path) -> None:
    uri = source.cluster.uri(0, "other").replace("guest:guest", "app:hidden")
    result = mirrormq("backup", str(tmp_path / "new"), "--uri", uri)
    assert result.returncode == 1
    assert "user 'app' needs the tag 'administrator'" in result.stderr


def test_a_damaged_backup_is_found(source: Source, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(source.directory), str(copy)], check=True)
    result = mirrormq("restore", "--check", str(copy))
    assert result.returncode == 0 and "is complete: 7 queues" in result.stdout
    damage(copy / "queues" / "000001")
    result = mirrormq("restore", "--check", str(copy))
    assert result.returncode == 1 and "is damaged; use another backup" in result.stderr
    (copy / "manifest.json").unlink()
    result = mirrormq("restore", str(copy))
    assert result.returncode == 1 and "is no complete backup: manifest.json is missing" in result.stderr
    result = mirrormq("backup", str(copy), *uris(source.cluster, 1))
    assert result.returncode == 1 and "perhaps of an interrupted backup" in result.stderr


def test_messages_are_read_from_mirrors(source: Source, tmp_path: Path) -> None:
    """Clients declared all queues on the first node, so that is their master, and only mirrors read."""
    before = [_messages_read(source.cluster, index) for index in range(3)]
    assert mirrormq("backup", str(tmp_path / "new"), *uris(source.cluster, 3)).returncode == 0
    after = [_messages_read(source.cluster, index) for index in range(3)]
    durable = sum(map(len, source.messages.values())) - len(source.messages["memory"])
    assert after[0] - before[0] == 1  # The queue in the second vhost has no mirror.
    assert sum(after) - sum(before) >= durable


def _messages_read(cluster: Cluster, index: int) -> int:
    """Return how many messages a node has read from its journal."""
    with urlopen(f"http://127.0.0.1:{cluster.management_port(index)}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line.split()[-1] for line in lines if line.startswith("rabbitmq_msg_store_read_total")]
    return int(float(value))
