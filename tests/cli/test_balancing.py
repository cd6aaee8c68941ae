"""Configurations of HAProxy and keepalived: the real programs accept them, and clients connect through
them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pika.exceptions
import pytest

from mirrormq.testing import Cluster
from tests.brokers.ports import accepts, free_ports
from tests.needs import not_installed

DEADLINE_S = 60.0
ADMINISTRATORS = os.pathsep.join(("/usr/sbin", "/usr/local/sbin", os.environ.get("PATH", "")))


def mirrormq(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mirrormq.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def program(name: str) -> str:
    found = shutil.which(name, path=ADMINISTRATORS)
    if found is None:
        pytest.skip(not_installed(name))
    return found


@contextmanager
def haproxy(text: str, port: int, directory: Path) -> Iterator[None]:
    """Run a real HAProxy inside the block."""
    file = directory / "haproxy.cfg"
    file.write_text(text)
    process = subprocess.Popen([program("haproxy"), "-db", "-f", str(file)], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not accepts(port):
            assert process.poll() is None and time.monotonic() < deadline, "haproxy did not start"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize(
    ("words", "servers"),
    [
        ((), 3),
        (("127.0.0.1:5672", "[::1]:5672", "not-there.invalid:5672"), 3),
        (
            ("127.0.0.1:5672", "--management", "127.0.0.1:15672", "--proxy-protocol", "--bind", "[::1]:5670"),
            2,
        ),
    ],
)
def test_haproxy_takes_the_file(words: tuple[str, ...], servers: int, tmp_path: Path) -> None:
    done = mirrormq("haproxy-config", *words, "--data", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (tmp_path / "haproxy.cfg").write_text(done.stdout)
    command = [program("haproxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert done.stdout.count("    server node") == servers


@pytest.mark.parametrize(
    ("words", "exposed"),
    [
        ((), []),
        (("--bind", "[::1]:5670"), []),
        (("--bind", "*:5670"), ["*:5670"]),
        (("--bind", "*:5670", "--proxy-protocol"), []),
        (("localhost:5672", "--bind", "10.0.0.1:5670"), ["10.0.0.1:5670"]),
        (("alpha.example:5672", "--bind", "*:5670"), []),
        (("127.0.0.1:1", "--management", "127.0.0.1:2", "--management-bind", "*:3"), ["*:3"]),
    ],
)
def test_who_would_expose_guest_is_warned(words: tuple[str, ...], exposed: list[str], tmp_path: Path) -> None:
    done = mirrormq("haproxy-config", *words, "--data", str(tmp_path))
    assert done.returncode == 0
    said = [line for line in done.stderr.splitlines() if "guest can log in from anywhere" in line]
    assert len(said) == len(exposed)
    for frontend, line in zip(exposed, said, strict=True):
        assert f" {frontend} is open" in line
    assert done.stdout.count("# WARNING") == len(exposed)
    if "--bind" not in words:
        assert "    bind 127.0.0.1:5670\n" in done.stdout


@pytest.mark.parametrize("words", [(), ("--backup", "--peer", "10.0.0.1", "--address", "10.0.0.100/24")])
def test_keepalived_takes_the_file(words: tuple[str, ...], tmp_path: Path) -> None:
    interfaces = sorted(path.name for path in Path("/sys/class/net").glob("*") if path.name != "lo")
    done = mirrormq("keepalived-config", *words, "--interface", (interfaces or ["eth0"])[0])
    assert done.returncode == 0, done.stderr
    assert ("state BACKUP" if words else "state MASTER") in done.stdout
    if not interfaces:
        pytest.skip("keepalived refuses the loopback, the only interface here: ip link add dummy0 type dummy")
    (tmp_path / "keepalived.conf").write_text(done.stdout)
    command = [program("keepalived"), "-t", "-f", str(tmp_path / "keepalived.conf")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("haproxy-config", "alpha"), "NODES: 'alpha' must be HOST:PORT."),
        (("haproxy-config", "a:1\n  server x"), "must be HOST:PORT."),
        (("haproxy-config", "alpha:70000"), "NODES: 'alpha:70000' must be HOST:PORT."),
        (("haproxy-config", "a:1", "--bind", "x"), "--bind: 'x' must be HOST:PORT."),
        (
            ("keepalived-config", "--address", "here"),
            "'here' does not appear to be an IPv4 or IPv6",
        ),
        (("keepalived-config", "--interface", "a b"), "'a b' is not a valid name of a network interface."),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = mirrormq(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert sentence in done.stderr


def test_clients_of_a_frozen_node_are_sent_to_another(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Cluster(nodes=3, mirror_all=True) as cluster:
        text = mirrormq(
            "haproxy-config", "--data", str(cluster.directory), "--bind", f"127.0.0.1:{port}"
        ).stdout
        parameters = pika.ConnectionParameters("127.0.0.1", port, socket_timeout=30)
        with haproxy(text.partition("\nlisten management")[0], port, tmp_path):
            connections = [pika.BlockingConnection(parameters) for _ in range(3)]
            rows = cluster.ctl("-q", "list_connections", "pid").splitlines()
            assert len({row.partition(".")[0] for row in rows if "<" in row}) == 3, "one on each node"
            cluster.freeze(2)
            deadline = time.monotonic() + DEADLINE_S
            while all(map(_incarnations, connections)):
                assert time.monotonic() < deadline, "the client of a frozen node was not cut off"
            again = pika.BlockingConnection(parameters)
            channel = again.channel()
            channel.confirm_delivery()
            channel.queue_declare("behind", durable=True)
            channel.basic_publish("", "behind", b"another node")
            assert channel.basic_get("behind", auto_ack=True)[2] == b"another node"
            for connection in (*connections, again):
                if connection.is_open:
                    connection.close()


def _incarnations(connection: pika.BlockingConnection) -> bool:
    try:
        connection.process_data_events(0.05)
    except pika.exceptions.AMQPError:
        return False
    return True
