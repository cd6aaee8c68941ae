"""Commands of `mirrormq cluster` and their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq import __version__
from mirrormq.cli.local_node import is_frozen, is_running
from mirrormq.testing import Cluster
from mirrormq.testing.port_allocator import free_ports
from tests.brokers.ports import accepts
from tests.waiting import until

SECOND = "mirror2@localhost"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with Cluster(nodes=2) as running:
        yield running


def say(cluster: Cluster, verb: str, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "mirrormq", "cluster", verb, "--data", str(cluster.directory), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    return done.returncode, done.stdout, done.stderr


def second_pid(cluster: Cluster) -> int:
    return type(cluster.local).load(cluster.directory).nodes[1].pid


def test_a_node_is_frozen_and_resumed(nodes: Cluster) -> None:
    pid = second_pid(nodes)
    code, said, _ = say(nodes, "freeze", "mirror2")
    again = f"mirrormq cluster resume --data {nodes.directory} {SECOND}"
    assert (code, said) == (0, f"{SECOND} frozen (SIGSTOP, pid {pid}). Continue it with: {again}\n")
    assert is_frozen(nodes.local.nodes[1])
    assert f"frozen, pid {pid}" in say(nodes, "status")[1]
    assert say(nodes, "freeze", SECOND)[::2] == (
        1,
        f"mirrormq cluster: {SECOND} is frozen already, pid {pid}.\n",
    )
    code, _, error = say(nodes, "start", SECOND)
    assert code == 1 and again in error
    assert say(nodes, "resume", SECOND) == (0, f"{SECOND} continues (SIGCONT, pid {pid}).\n", "")
    assert not is_frozen(nodes.local.nodes[1])
    assert say(nodes, "resume", SECOND)[::2] == (1, f"mirrormq cluster: {SECOND} is not frozen, pid {pid}.\n")
    until(lambda: SECOND in nodes.ctl("-q", "cluster_status"), "the node is back")


@pytest.mark.parametrize(("verb", "did"), [("stop", "stopped."), ("kill", "killed (SIGKILL, pid {}).")])
def test_a_node_is_stopped_or_killed_and_started(nodes: Cluster, verb: str, did: str) -> None:
    pid = second_pid(nodes)
    code, said, _ = say(nodes, verb, "mirror2")
    again = f"Start it again with: mirrormq cluster start --data {nodes.directory} {SECOND}"
    assert (code, said) == (0, f"{SECOND} {did.format(pid)} {again}\n")
    assert not is_running(nodes.local.nodes[1])
    assert say(nodes, verb, SECOND)[::2] == (1, f"mirrormq cluster: {SECOND} is not running.\n")
    code, said, _ = say(nodes, "start", SECOND)
    assert code == 0
    nodes.local.nodes[1].pid = pid = second_pid(nodes)
    assert said == f"{SECOND} serves clients at 127.0.0.1:{nodes.port(1)}, pid {pid}.\n"


def test_up_and_down_name_the_nodes_and_the_way_back(tmp_path: Path) -> None:
    first = free_ports(3)
    place = ["--data", "var"]
    ports = ["--amqp-port", str(first), "--management-port", str(first + 1), "--cluster-port", str(first + 2)]
    command = [sys.executable, "-m", "mirrormq", "cluster"]
    environment = os.environ | {"MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}

    def run(*words: str) -> list[str]:
        done = subprocess.run(
            [*command, *words, *place], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=True, timeout=90,
        )  # fmt: skip
        return done.stdout.splitlines()

    assert run("up", "--nodes", "1", *ports, "--detach")[-1] == (
        "1 node is running. Stop with: mirrormq cluster down --data var"
    )
    assert run("down") == ["mirror1@localhost stopped"]
    assert run("down") == ["mirror1@localhost was not running"]


@pytest.mark.parametrize("formatter", ["plaintext", "json"])
def test_a_server_says_where_everything_is(formatter: str, tmp_path: Path) -> None:
    first = free_ports(3)
    command = [sys.executable, "-m", "mirrormq", "server", "--name", "banner@localhost"]
    command += ["--data", str(tmp_path / "data"), "--cookie-file", str(tmp_path / "cookie")]
    command += ["--amqp", f"localhost:{first}", "--management", f"127.0.0.1:{first + 1}"]
    command += ["--cluster", f"localhost:{first + 2}"]
    variables = {"MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run"), "MIRRORMQ_LOG__CONSOLE__FORMATTER": formatter}
    environment = os.environ | variables
    node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: accepts(first) or node.poll() is not None, "the node serves clients")
        node.send_signal(signal.SIGINT)
        said = node.communicate(timeout=60)[0]
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()
    assert node.returncode == 0
    expected = [
        f"MirrorMQ {__version__}, node banner@localhost",
        f"  data    {tmp_path / 'data'}",
        f"  amqp    localhost:{first}",
        f"  page    http://127.0.0.1:{first + 1}/",
        f"  cookie  {tmp_path / 'cookie'}",
        "  stop    Ctrl-C or SIGTERM",
    ]
    assert said.splitlines() == (expected if formatter == "plaintext" else [])
