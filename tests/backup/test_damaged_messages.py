"""Messages without a good copy: the backup names their queue, and the rest can be restored."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mirrormq.backup.backup_files import BackupError, BackupReader
from mirrormq.backup.cluster_access import ClusterAccess
from mirrormq.backup.restore_run import restore
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.range_client import RangeAnswer
from mirrormq.testing import Cluster
from mirrormq.wire.fields import Table
from tests.backup.contents import messages, mirrormq, uris
from tests.durability.node import Node
from tests.durability.test_damage import declare, find_message, flip
from tests.durability.traffic import publish_all

COUNT = 300
EXIT_INCOMPLETE = 3
LACKS = "the backup lacks 1 damaged message of queue 'orders' in vhost '/'"


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Backup of a node that has a damaged record of message 150 and no mirror."""
    directory = tmp_path_factory.mktemp("backup") / "monday"
    with Node() as node:
        declare(node, "orders", "sound")
        publish_all(node, "orders", COUNT)
        publish_all(node, "sound", 1)
        node.end()
        path, at = find_message(node, 150)
        flip(path, at + 50)
        node.boot()
        done = mirrormq("backup", str(directory), "--uri", f"amqp://guest:guest@127.0.0.1:{node.amqp_port}")
    assert done.returncode == EXIT_INCOMPLETE, done.stderr
    assert done.stdout == f"Backed up 2 queues with {COUNT} messages to {directory}.\n"
    assert LACKS in done.stderr and "sound" not in done.stderr
    return directory


def test_the_manifest_counts_them_by_queue(backup: Path) -> None:
    rows = json.loads((backup / "manifest.json").read_text())["queues"]
    assert {row["name"]: (row["messages"], row["damaged"]) for row in rows} == {
        "orders": (COUNT - 1, 1), "sound": (1, 0),
    }  # fmt: skip


def test_the_rest_is_checked_and_restored_with_the_warning(backup: Path) -> None:
    checked = mirrormq("restore", "--check", str(backup))
    assert checked.returncode == 0 and LACKS in checked.stderr
    with Cluster(nodes=1) as cluster:
        done = mirrormq("restore", str(backup), *uris(cluster, 1))
        assert done.returncode == 0 and LACKS in done.stderr
        numbers = [int(re.match(rb"\d+", body)[0]) for _, body in messages(cluster, "orders")]  # type: ignore[index]
        assert numbers == [number for number in range(COUNT) if number != 150]


class OlderCluster(ClusterAccess):
    """Cluster whose nodes know batches without ingestion times only, as the version before them."""

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        if headers["ask"].value == b"restore" and headers["part"].value == b"messages":
            text = "the body of the restore request is wrong: not a batch of version 1: it begins with "
            raise RequestRefused(406, f"{text}{body[:8]!r}")
        return super().ask(headers, body)


def test_a_cluster_of_the_former_version_is_named_as_such(backup: Path) -> None:
    with (
        Cluster(nodes=1) as cluster,
        OlderCluster([cluster.uri(0)], 60.0) as access,
        pytest.raises(
            BackupError, match="run an older version of MirrorMQ, which cannot store ingestion times"
        ),
    ):
        restore(access, BackupReader(backup), lambda text: None)
