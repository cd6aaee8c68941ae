"""Configurations of HAProxy and keepalived: the real programs accept them, and clients connect through
them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest
import requests

from mirrormq.migration_io.haproxy_socket import HaproxySocket
from mirrormq.testing import Cluster
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.ports import accepts, free_ports
from tests.management.conftest import managed
from tests.management.http import Client
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
        (("127.0.0.1:5672", "--tls", "127.0.0.1:5671", "--tls", "[::1]:5671", "--maxconn", "100"), 3),
        (("127.0.0.1:5672", "--admin-socket", "/tmp/h.sock"), 1),
        (("127.0.0.1:5672", "[::1]:5672", "--lua", "LUA", "--proxy-protocol"), 2),
    ],
)
def test_haproxy_takes_the_file(words: tuple[str, ...], servers: int, tmp_path: Path) -> None:
    words = tuple(str(tmp_path / "nodes.lua") if word == "LUA" else word for word in words)
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
def test_a_configuration_that_exposes_guest_gets_a_warning(
    words: tuple[str, ...], exposed: list[str], tmp_path: Path
) -> None:
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
    assert f"priority {90 if words else 100}\n" in done.stdout
    if not interfaces:
        pytest.skip("keepalived refuses the loopback, the only interface here: ip link add dummy0 type dummy")
    (tmp_path / "keepalived.conf").write_text(done.stdout)
    command = [program("keepalived"), "-t", "-f", str(tmp_path / "keepalived.conf")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    # keepalived 2.2 ends such a check by a signal to itself if the file has scripts; it prints every mistake.
    assert checked.stdout + checked.stderr == ""


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
        (("keepalived-config", "--proxy", "x"), "--proxy: 'x' must be HOST:PORT."),
        (("haproxy-config", "a:1", "--statistics-bind", "x"), "--statistics-bind: 'x' must be HOST:PORT."),
        (
            ("haproxy-config", "a:1", "--admin-socket", "h.sock"),
            "--admin-socket: 'h.sock' must be an absolute",
        ),
        (("haproxy-config", "a:1", "--admin-socket", "/h\n  x"), "--admin-socket: '/h\\n  x' must be an"),
        (("haproxy-config", "a:1", "--lua", "/h x"), "--lua: '/h x' must have at most 90 characters"),
        (("haproxy-config", "a:1", "--lua", "/not/there.lua"), "--lua: /not/there.lua cannot be written:"),
        (("keepalived-config", "--interface", "a b"), "'a b' is not a valid name of a network interface."),
    ],
)
def test_an_impossible_request_is_refused_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = mirrormq(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert sentence in done.stderr


def configured(cluster: Cluster, port: int, management_port: int, *words: str) -> str:
    return mirrormq(
        "haproxy-config", "--data", str(cluster.directory), "--bind", f"127.0.0.1:{port}",
        "--management-bind", f"127.0.0.1:{management_port}", "--statistics-bind", "none", *words,
    ).stdout  # fmt: skip


def shake_hands(port: int) -> bool:
    """Connect and report whether a node replies to the protocol header."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as link:
        link.sendall(PROTOCOL_HEADER)
        return link.recv(1) == b"\x01"


def wait_for(condition: Callable[[], bool], sentence: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, sentence
        time.sleep(0.05)


def test_clients_behind_a_proxy_survive_frozen_killed_and_drained_nodes(tmp_path: Path) -> None:
    port, management_port = free_ports(2)
    with Cluster(nodes=3, mirror_all=True) as cluster:
        text = configured(cluster, port, management_port, "--admin-socket", str(tmp_path / "socket"))
        with haproxy(text, port, tmp_path):
            drained_server_keeps_its_clients(HaproxySocket(str(tmp_path / "socket")), port)
            drained_node_refuses_nobody(cluster, port)
            killed_node_refuses_nobody(cluster, port)
            frozen_node_is_left(cluster, port, management_port)


def drained_server_keeps_its_clients(proxy: HaproxySocket, port: int) -> None:
    """Drain a server at the proxy: its clients stay until they leave, and new ones reach other nodes."""
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    connections = [pika.BlockingConnection(parameters) for _ in range(3)]
    proxy.change("set server amqp/node1 state drain")
    connections += [pika.BlockingConnection(parameters) for _ in range(4)]
    assert {each.name: each.sessions for each in proxy.servers() if each.backend == "amqp"} == {
        "node1": 1, "node2": 3, "node3": 3,
    }  # fmt: skip
    assert all(map(is_alive, connections))
    proxy.change("set server amqp/node1 state ready")
    for connection in connections:
        connection.close()


def drained_node_refuses_nobody(cluster: Cluster, port: int) -> None:
    """Drain a node: until the checks notice it, the proxy sends its new clients to another one."""
    ready = f"http://127.0.0.1:{cluster.management_port(0)}/api/health/ready"
    assert requests.get(ready, timeout=DEADLINE_S).json() == {"status": "ok"}
    cluster.ctl("drain")
    refused = requests.get(ready, timeout=DEADLINE_S)
    assert (refused.status_code, refused.json()["reason"]) == (503, "The node is in maintenance mode")
    assert all(shake_hands(port) for _ in range(12))
    cluster.ctl("revive")
    assert requests.get(ready, timeout=DEADLINE_S).status_code == 200


def killed_node_refuses_nobody(cluster: Cluster, port: int) -> None:
    cluster.kill(1)
    assert all(shake_hands(port) for _ in range(12))
    cluster.start(1)


def frozen_node_is_left(cluster: Cluster, port: int, management_port: int) -> None:
    """Clients of a frozen node lose their connection and reconnect; the HTTP API continues too."""
    parameters = pika.ConnectionParameters("127.0.0.1", port, socket_timeout=30)
    connections = [pika.BlockingConnection(parameters) for _ in range(6)]
    cluster.freeze(0)
    wait_for(lambda: not all(map(is_alive, connections)), "the client of a frozen node was not cut off")
    again = pika.BlockingConnection(parameters)
    channel = again.channel()
    channel.confirm_delivery()
    channel.queue_declare("behind", durable=True)
    channel.basic_publish("", "behind", b"another node")
    assert channel.basic_get("behind", auto_ack=True)[2] == b"another node"
    # `balance first` prefers node 1, which is frozen: the check of the HTTP API must have noticed.
    wait_for(lambda: answers(management_port), "the HTTP API still goes to the frozen node")
    for connection in (*connections, again):
        with suppress(pika.exceptions.AMQPError):  # Those of the frozen node are closed.
            connection.close()


SHAKES_S = 4.0
"""Time of handshakes after a freeze: the checks take 3 s to notice it."""


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_with_the_lua_script_no_client_reaches_a_frozen_node(host: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Cluster(nodes=3) as cluster:
        # A node listens on IPv6 loopback, too, where there is one.
        nodes = [f"{host}:{cluster.port(number)}" for number in range(3)]
        text = mirrormq(
            "haproxy-config", *nodes, "--bind", f"127.0.0.1:{port}", "--statistics-bind", "none",
            "--lua", str(tmp_path / "nodes.lua"),
        ).stdout  # fmt: skip
        with haproxy(text, port, tmp_path):
            wait_for(lambda: shake_hands(port), "the proxy has no node")
            parameters = pika.ConnectionParameters("127.0.0.1", port)
            connections = [pika.BlockingConnection(parameters) for _ in range(6)]
            rows = Client(cluster.management_port(0)).get("connections?columns=node")
            assert Counter(row["node"] for row in rows) == {cluster.name(number): 2 for number in range(3)}
            for connection in connections:
                connection.close()
            cluster.freeze(0)
            until_s, shakes, longest_s = time.monotonic() + SHAKES_S, 0, 0.0
            while (began_s := time.monotonic()) < until_s:
                assert shake_hands(port), f"handshake {shakes} after the freeze"
                shakes, longest_s = shakes + 1, max(longest_s, time.monotonic() - began_s)
            print(f"{shakes} handshakes, the longest took {longest_s:.2f} s")
            cluster.thaw(0)


def answers(management_port: int) -> bool:
    try:
        url = f"http://127.0.0.1:{management_port}/api/whoami"
        return requests.get(url, auth=("guest", "guest"), timeout=1).status_code == 200
    except requests.RequestException:
        return False


def is_alive(connection: pika.BlockingConnection) -> bool:
    try:
        connection.process_data_events(0.05)
    except pika.exceptions.AMQPError:
        return False
    return True


def test_checks_leave_no_log_line(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with managed("") as node:
        before = node.output
        text = mirrormq(
            "haproxy-config", f"127.0.0.1:{node.amqp_port}", "--bind", f"127.0.0.1:{port}",
            "--statistics-bind", "none",
        ).stdout  # fmt: skip
        with haproxy(text, port, tmp_path):
            assert shake_hands(port)
            parameters = pika.ConnectionParameters("127.0.0.1", port)
            pika.BlockingConnection(parameters).close()
            wait_for(lambda: "closing AMQP connection" in node.output, "no line about the real client")
        lines = node.output[len(before) :].splitlines()
        assert sum("accepting AMQP connection" in line for line in lines) == 1, "the client's, no check's"
        assert sum("closing AMQP connection" in line for line in lines) == 1
