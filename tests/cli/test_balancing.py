"""Configurations of HAProxy and keepalived: the real programs accept them, and clients connect through
them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest
import requests

from mirrormq.testing import Cluster
from mirrormq.testing.network_namespaces import NetworkNamespaces
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.ports import accepts, free_ports
from tests.management.conftest import managed
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
        (("keepalived-config", "--interface", "a b"), "'a b' is not a valid name of a network interface."),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = mirrormq(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert sentence in done.stderr


def configured(cluster: Cluster, port: int, management_port: int) -> str:
    return mirrormq(
        "haproxy-config", "--data", str(cluster.directory), "--bind", f"127.0.0.1:{port}",
        "--management-bind", f"127.0.0.1:{management_port}", "--statistics-bind", "none",
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
        text = configured(cluster, port, management_port)
        with haproxy(text, port, tmp_path):
            drained_node_refuses_nobody(cluster, port)
            killed_node_refuses_nobody(cluster, port)
            frozen_node_is_left(cluster, port, management_port)


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


def test_the_address_leaves_a_frozen_and_a_dead_proxy(tmp_path: Path) -> None:
    if obstacle := NetworkNamespaces.obstacle():
        pytest.skip(obstacle)
    network = NetworkNamespaces(3, f"mmqvip{os.getpid()}")
    network.make()
    with ExitStack() as stack:
        stack.callback(network.remove)
        node = [
            sys.executable, "-m", "mirrormq.cli.main", "server", "--name", "one@localhost",
            "--data", str(tmp_path / "data"), "--amqp", "10.83.0.3:5672",
            "--management", "none", "--cluster", "none",
        ]  # fmt: skip
        spawn(stack, tmp_path, "node", [*network.prefix(2), *node])
        wait_for(lambda: reaches(network, "10.83.0.3", 5672), "the node did not start")
        proxies = [start_proxy(stack, network, which, tmp_path) for which in range(2)]
        wait_for(lambda: holder(network) is not None, "no proxy has the address")

        def freeze(which: int) -> None:
            proxies[which].send_signal(signal.SIGSTOP)

        def thaw(which: int) -> None:
            proxies[which].send_signal(signal.SIGCONT)

        def kill(which: int) -> None:
            proxies[which].kill()

        def start(which: int) -> None:
            proxies[which] = start_haproxy(stack, network, which, tmp_path)

        times_s = {
            "frozen proxy": quickest_move(network, tmp_path, freeze, thaw),
            "dead proxy": quickest_move(network, tmp_path, kill, start),
        }
    print(f"\nseconds until the address has moved: {times_s}")
    assert max(times_s.values()) < MOVE_S, times_s


VIRTUAL_ADDRESS = "10.83.0.100"
MOVE_S = 3.0
"""Limit for the move of the address. keepalived runs its script every second; the script takes up to 1.2 s,
and the other host takes the address 0.65 s after it was given up."""
MOVES_MAX = 3
"""Attempts to move it in that time: a busy machine delays some."""
MOVE_BUSY_S = 10.0
"""Limit for every attempt: three intervals of the script, and a machine that is busy with other tests."""


def quickest_move(
    network: NetworkNamespaces, directory: Path, strike: Callable[[int], None], heal: Callable[[int], None]
) -> float:
    """Let proxies fail until the address moves in time once; return the shortest time."""
    times_s: list[float] = []
    while not times_s or (min(times_s) >= MOVE_S and len(times_s) < MOVES_MAX):
        times_s.append(move(network, directory, strike, heal))
    return min(times_s)


def move(
    network: NetworkNamespaces, directory: Path, strike: Callable[[int], None], heal: Callable[[int], None]
) -> float:
    """Let the proxy that has the address fail; return the time until the other one has it."""
    first = holder(network)
    assert first is not None
    wait_for(lambda: is_standby(directory, 1 - first), "the other host is not ready")
    wait_for(lambda: reaches(network, VIRTUAL_ADDRESS, 5670), "the address does not serve")
    began_s = time.monotonic()
    strike(first)
    wait_for(lambda: holder(network) == 1 - first, "the address stayed with a proxy that does not serve")
    took_s = time.monotonic() - began_s
    assert took_s < MOVE_BUSY_S
    wait_for(lambda: reaches(network, VIRTUAL_ADDRESS, 5670), "the other proxy does not serve")
    heal(first)
    wait_for(lambda: serves(network, first), "the first proxy did not recover")
    return round(took_s, 2)


def is_standby(directory: Path, which: int) -> bool:
    """Report whether a host would take the address."""
    states = re.findall(r"Entering (\w+) STATE", (directory / f"keepalived{which}.log").read_text())
    return states[-1:] == ["BACKUP"]


def spawn(stack: ExitStack, directory: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Run a program until the stack ends; its output goes to a file."""
    output = stack.enter_context((directory / f"{name}.log").open("wb"))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def end() -> None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(DEADLINE_S)

    stack.callback(end)
    return process


def start_haproxy(
    stack: ExitStack, network: NetworkNamespaces, which: int, directory: Path
) -> subprocess.Popen[bytes]:
    file = directory / f"haproxy{which}.cfg"
    if not file.exists():
        words = ("10.83.0.3:5672", "--bind", "*:5670", "--statistics-bind", "none")
        file.write_text(mirrormq("haproxy-config", *words).stdout)
    command = [*network.prefix(which), program("haproxy"), "-db", "-f", str(file)]
    return spawn(stack, directory, f"haproxy{which}", command)


def start_proxy(
    stack: ExitStack, network: NetworkNamespaces, which: int, directory: Path
) -> subprocess.Popen[bytes]:
    """Run HAProxy and keepalived in one namespace, and return HAProxy's process."""
    keepalived_file = directory / f"keepalived{which}.conf"
    keepalived_file.write_text(
        mirrormq(
            "keepalived-config", "--address", f"{VIRTUAL_ADDRESS}/24", "--interface", "eth0",
            "--peer", network.addresses[1 - which], *(["--backup"] if which else []),
        ).stdout
    )  # fmt: skip
    proxy = start_haproxy(stack, network, which, directory)
    pid_files = ["-p", str(directory / f"parent{which}.pid"), "-r", str(directory / f"vrrp{which}.pid")]
    keepalived = [program("keepalived"), "-n", "-l", "-P", "-f", str(keepalived_file), *pid_files]
    spawn(stack, directory, f"keepalived{which}", [*network.prefix(which), *keepalived])
    return proxy


def holder(network: NetworkNamespaces) -> int | None:
    """Return the number of the namespace that has the virtual address."""
    for which in range(2):
        command = ["ip", "-n", network.space(which), "address", "show", "dev", "eth0"]
        if VIRTUAL_ADDRESS in subprocess.run(command, capture_output=True, text=True, check=True).stdout:
            return which
    return None


def serves(network: NetworkNamespaces, which: int) -> bool:
    return reaches(network, network.addresses[which], 5670)


def reaches(network: NetworkNamespaces, host: str, port: int) -> bool:
    """Report whether a client in the third namespace gets connection.start from this address."""
    with network.socket(2) as link:
        link.settimeout(1)
        try:
            link.connect((host, port))
            link.sendall(PROTOCOL_HEADER)
            return link.recv(1) == b"\x01"
        except OSError:
            return False
