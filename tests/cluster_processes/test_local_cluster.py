"""`mirrormq cluster` and `mirrormq.testing.Cluster` run clusters of several nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pika

from mirrormq.testing import Cluster
from mirrormq.testing.port_allocator import free_ports

NAMES = ["mirror1@localhost", "mirror2@localhost", "mirror3@localhost"]


def run(module: str, *words: str, run_directory: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", *words],
        env={**os.environ, "MIRRORMQ_RUNTIME_DIR": run_directory},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_detached_cluster_has_formed_when_the_command_returns(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mirrormq-") as directory:

        def cluster(*words: str) -> str:
            done = run(
                "mirrormq.cli.main", "cluster", *words, "--data", str(tmp_path), run_directory=directory
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        def ctl(node: str, *words: str) -> str:
            done = run("mirrormq.cli.ctl", "-n", node, "-q", *words, run_directory=directory)
            assert done.returncode == 0, done.stderr
            return done.stdout

        first = free_ports(9)
        ports = ["--amqp-port", str(first), "--management-port", str(first + 3)]
        ports += ["--cluster-port", str(first + 6)]
        said = cluster("up", "--nodes", "3", *ports, "--mirror-all", "--detach")
        try:
            assert [f"127.0.0.1:{first + n}/" in said for n in range(3)] == [True] * 3
            found = json.loads(ctl(NAMES[2], "cluster_status", "--formatter", "json"))
            assert found["running_nodes"] == NAMES
            assert "ha-all\t.*\tqueues\t" in ctl(NAMES[1], "list_policies")
            rows = json.loads(cluster("status", "--json"))
            assert [(row["name"], row["amqp_port"], row["running"]) for row in rows] == [
                (name, first + n, True) for n, name in enumerate(NAMES)
            ]
            cluster("kill", "mirror1")
            assert [row["running"] for row in json.loads(cluster("status", "--json"))] == [False, True, True]
            cluster("start", NAMES[0])
            ctl(NAMES[1], "await_online_nodes", "3", "-t", "60")
        finally:
            cluster("down")
        assert not any(row["running"] for row in json.loads(cluster("status", "--json")))


def test_a_cluster_comes_back_at_other_ports_but_not_with_too_few_nodes(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mirrormq-") as directory:

        def cluster(*words: str) -> subprocess.CompletedProcess[str]:
            command = ("cluster", *words, "--data", str(tmp_path))
            return run("mirrormq.cli.main", *command, run_directory=directory)

        def up(nodes: int, *more: str) -> subprocess.CompletedProcess[str]:
            first = free_ports(6)
            ports = ("--amqp-port", str(first), "--management-port", str(first + 3))
            return cluster("up", "--nodes", str(nodes), *ports, *more, "--detach")

        try:
            done = up(3, "--cluster-port", str(free_ports(3)))
            assert done.returncode == 0, done.stderr
            assert cluster("down").returncode == 0
            refused = up(1)
            assert refused.returncode == 1
            assert "has a cluster of 3 nodes, and 1 are not a majority" in refused.stderr
            done = up(3)
            assert done.returncode == 0, done.stderr
        finally:
            cluster("down")


def test_the_testing_cluster_survives_the_loss_of_any_node() -> None:
    with Cluster(nodes=3, mirror_all=True) as cluster:
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.confirm_delivery()
        for number in range(20):
            channel.basic_publish("", "kept", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        cluster.kill(0)
        after = pika.BlockingConnection(pika.URLParameters(cluster.uri(1))).channel()
        assert after.queue_declare("kept", durable=True, passive=True).method.message_count == 20
        cluster.start(0)
        cluster.freeze(2)
        assert cluster.ctl("list_queues", "name", "messages", node=1).endswith("kept\t20\n")
        cluster.thaw(2)
        assert "Reporting server status of node mirror2@localhost" in cluster.ctl("report", node=1)
        shown = json.loads(cluster.ctl("environment", "--formatter", "json", node=1))["rabbit"]
        assert shown["name"] == "mirror2@localhost"
        assert not {"cookie", "default_pass"} & shown.keys()


def test_messages_to_a_second_cluster_do_not_reach_one_with_the_same_names(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mirrormq-") as directory:

        def up(data: str, *words: str) -> subprocess.CompletedProcess[str]:
            first = free_ports(6)
            ports = ["--amqp-port", str(first), "--management-port", str(first + 2)]
            words = ("--nodes", "2", *ports, "--cluster-port", str(first + 4), *words, "--detach")
            place = ("--data", str(tmp_path / data))
            return run("mirrormq.cli.main", "cluster", "up", *words, *place, run_directory=directory)

        def policies(run_directory: str) -> str:
            return run("mirrormq.cli.ctl", "-q", "list_policies", run_directory=run_directory).stdout

        try:
            assert up("first").returncode == 0
            second = up("second", "--mirror-all")
            assert second.returncode == 0, second.stderr
            own = re.fullmatch(r".* set MIRRORMQ_RUNTIME_DIR=(.+)\.\n", second.stderr)
            assert own is not None, second.stderr
            assert "ha-all" in policies(own[1])
            assert "ha-all" not in policies(directory)
        finally:
            for data in ("first", "second"):
                run(
                    "mirrormq.cli.main", "cluster", "down", "--data", str(tmp_path / data),
                    run_directory=directory,
                )  # fmt: skip


def test_a_cluster_that_cannot_start_says_why_and_nothing_older(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mirrormq-") as directory:

        def up(data: Path, *words: str) -> str:
            first = free_ports(2)
            ports = ("--amqp-port", str(first), "--management-port", str(first + 1))
            command = ("cluster", "up", "--nodes", "1", *ports, "--data", str(data), *words, "--detach")
            done = run("mirrormq.cli.main", *command, run_directory=directory)
            assert done.returncode == 1
            return done.stderr

        conf = tmp_path / "node.conf"
        for line, reason in (
            ("hartbeat = 3", "unknown key hartbeat"),
            ("hartbit = 3", "unknown key hartbit"),
        ):
            conf.write_text(line)
            said = up(tmp_path / "data", "--conf", str(conf))
            assert said.startswith(f"mirrormq cluster: mirror1@localhost did not start: {conf}:1: {reason};")
            assert len(said.splitlines()) == 1
        (tmp_path / "file").touch()
        said = up(tmp_path / "file" / "data")
        assert said.startswith(f"mirrormq cluster: Cannot use {tmp_path / 'file' / 'data'}")
        assert said.endswith(": Not a directory.\n")
