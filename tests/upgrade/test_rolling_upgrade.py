"""Rolling upgrade: nodes of the version before and of this one in one cluster, under load.

The older node is this source without the commands of this version (`older_program`). With OLDER_REVISION, a
commit of this repository's history, it is that commit's own source (`make acceptance`).
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.cluster_processes.nodes import Nodes
from tests.test_tidy import ROOT
from tests.upgrade.load import QUEUE, Consumer, Publisher
from tests.waiting import until

OLDER_REVISION = os.environ.get("OLDER_REVISION", "")
MIRRORED = '{"ha-mode": "all", "ha-sync-mode": "automatic", "ha-promote-on-shutdown": "when-synced"}'
REFUSED = "version 2 of the cluster protocol meets version 3: upgrade the older node first"
STATIC_SHOVEL = """
shovel.static.src-uri = amqp://
shovel.static.src-queue = a
shovel.static.dest-uri = amqp://
shovel.static.dest-queue = b
"""
BATCH = 30
"""Messages that each publisher must get confirmed between two steps."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Arguments of the interpreter for the older program, with the packages that its revision required."""
    if not OLDER_REVISION:
        return ["-m", "tests.upgrade.older_program"]
    root = tmp_path_factory.mktemp("older")
    required = Path("requirements") / "runtime.txt"
    packed = subprocess.run(
        ["git", "archive", OLDER_REVISION, "src", str(required)], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(root)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"]
    subprocess.run(
        [*pip, "--target", str(root / "packages"), "-r", str(root / required)], check=True, timeout=600
    )
    paths = [str(root / "src"), str(root / "packages")]
    return ["-c", f"import sys; sys.path[:0] = {paths}; from mirrormq.cli.main import main; main()"]


@pytest.fixture
def nodes(tmp_path: Path, older: list[str]) -> Iterator[Nodes]:
    """Four nodes, all of the older version; the test starts three of them as a cluster."""
    found = Nodes(tmp_path, 4)
    found.programs = dict.fromkeys(range(4), older)
    try:
        yield found
    finally:
        found.end()


def in_sync(nodes: Nodes, index: int) -> int:
    """Return the number of synchronised copies of the queue, as a node lists it."""
    words = ["-q", "list_queues", "name", "synchronised_slave_pids", "--no-table-headers"]
    _, output, _ = nodes.control(index, words)
    rows = [line for line in output.splitlines() if line.split()[:1] == [QUEUE]]
    return 1 + sum(name in rows[0] for name in nodes.names) if rows else 0


def shovel_states(nodes: Nodes) -> dict[str, str]:
    """Return the state of each shovel by its type."""
    rows = json.loads(nodes.control(0, ["-q", "shovel_status", "--formatter", "json"])[1])
    return {row["type"]: row["state"] for row in rows}


def await_steps(publishers: list[Publisher]) -> None:
    """Wait until each publisher has got further messages confirmed."""
    wanted = {publisher: len(publisher.confirmed) + BATCH for publisher in publishers}
    until(
        lambda: all(len(publisher.confirmed) >= count for publisher, count in wanted.items()),
        "publishers go on",
    )


def upgrade(nodes: Nodes, index: int) -> None:
    """Stop a node in good order and start it with this program."""
    assert nodes.stop(index) == 0, nodes.log(index)[-2000:]
    nodes.programs.pop(index, None)
    nodes.start(index, conf=STATIC_SHOVEL)
    nodes.await_running(index, 0, 1, 2)
    until(lambda: in_sync(nodes, index) == 3, "all copies are synchronised")


def test_a_cluster_is_upgraded_node_by_node_under_load(nodes: Nodes) -> None:
    for index in range(3):
        nodes.spawn(index, *(() if index == 0 else ("--join", nodes.seed(0))))
    for index in range(3):
        nodes.await_serving(index)
        nodes.await_running(index, 0, 1, 2)
    assert nodes.control(0, ["set_policy", "ha", ".*", MIRRORED])[0] == 0
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", nodes.amqp_ports[0])) as connection:
        connection.channel().queue_declare(QUEUE, durable=True)
    ports = nodes.amqp_ports[:3]
    publishers = [Publisher(ports, first, f"p{first}") for first in range(2)]
    consumer = Consumer(ports, 2)
    for client in (*publishers, consumer):
        client.start()
    await_steps(publishers)
    for index in range(3):
        if index == 1:
            # Links are commands of version 3: no node writes them while an older one is a member.
            shovel = '{"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}'
            assert nodes.control(0, ["set_parameter", "shovel", "s", shovel])[0] == 0
        upgrade(nodes, index)
        await_steps(publishers)
        if index == 1:
            # A leader of revision 45e97cd places dynamic links itself: it has them, without the gate.
            assert shovel_states(nodes)["static"] == "starting"
    until(
        lambda: shovel_states(nodes) == {"static": "running", "dynamic": "running"},
        lambda: str(shovel_states(nodes)),
    )
    for publisher in publishers:
        publisher.end()
    confirmed = set().union(*(publisher.confirmed for publisher in publishers))
    until(
        lambda: consumer.seen >= confirmed, lambda: f"{len(confirmed - consumer.seen)} confirmed are missing"
    )
    consumer.end()
    assert all("cannot decode" not in nodes.log(index) for index in range(3))
    assert_older_is_refused(nodes)


def assert_older_is_refused(nodes: Nodes) -> None:
    """Check that a node of the older version cannot join once every member is upgraded, and learns why."""
    nodes.start(3)
    assert nodes.control(3, ["stop_app"])[0] == 0
    code, _, error = nodes.control(3, ["join_cluster", nodes.names[0]])
    assert code != 0
    for text in (error, nodes.log(0), nodes.log(3)):
        assert REFUSED in text


def test_a_newer_node_joins_an_older_cluster(nodes: Nodes) -> None:
    nodes.start(0)
    nodes.programs.pop(1)
    nodes.start(1, "--join", nodes.seed(0))
    nodes.await_running(0, 0, 1)
