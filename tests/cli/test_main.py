"""Program `mirrormq`: help, one-sentence errors, and local nodes as real processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from mirrormq.cli.help_pages import command_of
from mirrormq.cli.local_node import is_running
from mirrormq.cli.main import main
from mirrormq.cli.processes import LocalCluster
from mirrormq.cli.program import app
from mirrormq.config.settings import Address
from mirrormq.testing import Cluster
from mirrormq.testing.port_allocator import free_ports

DEADLINE_S = 30.0


def mirrormq(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    command = [sys.executable, "-m", "mirrormq.cli.main", *words]
    variables = {**os.environ, "MIRRORMQ_COOKIE": "of a test", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=variables)


def _pages(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _pages(inner, (*path, name))


@pytest.mark.parametrize("words", list(_pages(command_of(app))), ids=" ".join)
def test_every_page_of_the_help_has_an_example_and_names_values(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert re.search(r"^ +Examples?\b.*:\n +(source <\()?mirrormq ", text, re.MULTILINE), text
    assert not re.search(r"<(str|path|int|float|list)", text), text
    own = {
        name
        for name in re.findall(r"^  --([a-z-]+) ([A-Z:@=-]+)", text, re.MULTILINE)
        if name[0] == name[1].lower()
    }
    assert {name for name, _ in own} <= {"uri", "mode", "fault", "format", "address", "directory"}, own
    assert "..." not in text.replace("[ARGS]...", "").replace("]...", ""), "a sentence is cut short"


def test_the_help_begins_with_the_common_commands() -> None:
    text = mirrormq("--help").stdout
    commands = re.findall(r"^  ([a-z][a-z-]*)  +[A-Z]", text, re.MULTILINE)
    assert commands[:4] == ["cluster", "server", "top", "perf"]
    assert "check that no\n            confirmed message was lost." in text, "whole sentences"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--amqp", "here"), "--amqp: listeners.tcp.0 must be PORT or HOST:PORT, not `here`."),
        (("--name", "x"), "--name: name must be NAME@HOST"),
        (("--conf", "absent.conf"), "Cannot read the configuration file absent.conf"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(words: tuple[str, ...], sentence: str) -> None:
    done = mirrormq("server", *words)
    assert done.returncode == 78
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_key_in_the_file_is_named(tmp_path: Path) -> None:
    conf = tmp_path / "node.conf"
    conf.write_text("hartbeat = 5\n")
    done = mirrormq("server", "--conf", str(conf))
    assert done.returncode == 78
    assert f"{conf}:1: unknown key hartbeat; the nearest known key is heartbeat." in done.stderr


def test_a_taken_port_is_named(tmp_path: Path, node: Cluster) -> None:
    done = mirrormq(
        *("server", "--name", "other@localhost", "--data", str(tmp_path)),
        *("--amqp", f"127.0.0.1:{node.port()}", "--management", "none", "--cluster", "none"),
        MIRRORMQ_RUNTIME_DIR=str(tmp_path / "run"),
    )
    assert done.returncode == 75
    assert str(node.port()) in done.stderr


def test_a_data_directory_in_use_is_refused(tmp_path: Path, node: Cluster) -> None:
    data = node.directory / node.name()
    done = mirrormq(
        *("server", "--data", str(data), "--amqp", f"127.0.0.1:{free_ports(1)}"),
        MIRRORMQ_RUNTIME_DIR=str(tmp_path),
    )
    assert done.returncode == 75
    assert f"The data directory {data} is in use by process {node.local.nodes[0].pid}" in done.stderr


def test_only_what_a_restart_cannot_mend_ends_with_78(tmp_path: Path) -> None:
    """Check the exit codes: a path through a file is a mistake in the settings; a missing address may
    appear later."""
    (tmp_path / "file").write_text("")
    run = {"MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}
    done = mirrormq("server", "--data", str(tmp_path / "file" / "data"), **run)
    assert (done.returncode, done.stderr.count("\n")) == (78, 1)
    words = ("--data", str(tmp_path / "data"), "--amqp", "192.0.2.1:5672", "--management", "none")
    done = mirrormq("server", *words, "--cluster", "none", **run)
    assert done.returncode == 75
    assert "Cannot listen on 192.0.2.1:5672" in done.stderr


def chosen(first: int) -> list[str]:
    """Choose ports that no other test gets; a node's default ports may be in use."""
    flags = ("--amqp-port", "--management-port", "--cluster-port")
    return [word for number, flag in enumerate(flags) for word in (flag, str(first + number))]


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(nodes=1, conf="heartbeat = 17\n") as running:
        yield running


def test_the_settings_of_the_file_reach_clients(node: Cluster) -> None:
    offered: list[int] = []

    def choose(_: object, proposed: int) -> int:
        offered.append(proposed)
        return proposed

    parameters = pika.URLParameters(node.uri())
    parameters.heartbeat = choose
    pika.BlockingConnection(parameters).close()
    assert offered == [17]


@contextlib.contextmanager
def server(data: Path, name: str, run_directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Run one node in the foreground; it must stop on SIGTERM although its output is not read."""
    words = ("--name", name, "--data", str(data), "--amqp", f"localhost:{free_ports(1)}")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mirrormq.cli.main", "server", *words),
            *("--management", "none", "--cluster", "none"),
        ],
        env={**os.environ, "MIRRORMQ_RUNTIME_DIR": str(run_directory)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield process
        process.stderr.close()
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_second_node_of_the_same_name_leaves_the_first_its_socket(node: Cluster, tmp_path: Path) -> None:
    with server(tmp_path, node.name(), node.directory / "run") as second:
        assert second.stderr is not None
        assert f"Another node named {node.name()} answers" in second.stderr.readline()
        assert "serves clients" in second.stderr.readline()


def status(data: Path) -> list[dict[str, object]]:
    done = mirrormq("cluster", "status", "--data", str(data), "--json")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_a_detached_node_runs_is_killed_and_returns_with_its_messages(tmp_path: Path) -> None:
    environment = {"MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}
    data, port = tmp_path / "data", free_ports(3)
    words = ("cluster", "up", "--nodes", "1", "--data", str(data), *chosen(port))
    assert mirrormq(*words, "--mirror-all", "--detach", **environment).returncode == 0
    try:
        (row,) = status(data)
        assert (row["name"], row["amqp_port"], row["running"]) == ("mirror1@localhost", port, True)
        uri = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
        assert mirrormq("cluster", "kill", "--data", str(data), "mirror1").returncode == 0
        assert status(data)[0]["running"] is False
        assert mirrormq("cluster", "start", "--data", str(data), "mirror1@localhost").returncode == 0
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        assert connection.channel().basic_get("q")[2] == b"kept"
        connection.close()
    finally:
        assert mirrormq("cluster", "down", "--data", str(data)).returncode == 0
    assert status(data)[0]["running"] is False


def test_a_foreground_cluster_ends_with_its_nodes_on_sigterm(tmp_path: Path) -> None:
    port = free_ports(3)
    command = [sys.executable, "-m", "mirrormq.cli.main", "cluster", "up", "--nodes", "1"]
    command += ["--data", str(tmp_path), *chosen(port)]
    environment = {**os.environ, "MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as program:
        assert program.stdout is not None
        said = ""
        while "Ctrl-C" not in said and program.poll() is None:
            said += program.stdout.readline()
        assert f"amqp://guest:guest@127.0.0.1:{port}" in said
        assert "http://127.0.0.1:" in said
        assert LocalCluster.load(tmp_path).status()[0]["running"]
        program.send_signal(signal.SIGTERM)
        assert program.wait(DEADLINE_S) == 0
    assert not LocalCluster.load(tmp_path).status()[0]["running"]


@pytest.mark.usefixtures("interruptible")
def test_a_foreground_cluster_interrupted_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mirrormq.cli.main", "cluster", "up", "--nodes", "1"]
    command += ["--data", str(tmp_path), *chosen(free_ports(3))]
    environment = {**os.environ, "MIRRORMQ_RUNTIME_DIR": str(tmp_path / "run")}
    deadline = time.monotonic() + DEADLINE_S
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as program:
        while not (tmp_path / "cluster.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        program.send_signal(signal.SIGINT)
        assert program.wait(DEADLINE_S) == 0
    assert not LocalCluster.load(tmp_path).status()[0]["running"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("down",), "There is no cluster in"),
        (("kill", "mirror1"), "There is no cluster in"),
    ],
)
def test_a_cluster_command_that_cannot_work_says_so_in_one_line(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    done = mirrormq("cluster", *words, "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_node_can_be_killed_and_started_through_the_testing_api() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.kill(0)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
        cluster.start(0)
        pika.BlockingConnection(pika.URLParameters(cluster.uri(0))).close()
        directory = cluster.directory
    assert not directory.exists()


def test_a_node_that_was_started_by_a_command_ends_with_the_testing_api() -> None:
    with Cluster(nodes=1) as cluster:
        for command in ("kill", "start"):
            assert mirrormq("cluster", command, "--data", str(cluster.directory), "mirror1").returncode == 0
        started = LocalCluster.load(cluster.directory).nodes[0]
        assert is_running(started)
    assert not is_running(started)


def test_addresses_are_shown_as_they_are_written() -> None:
    assert [str(Address("::1", 1)), str(Address("127.0.0.1", 2))] == ["[::1]:1", "127.0.0.1:2"]
