"""Virtual address of two hosts with HAProxy and keepalived, each in a network namespace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mirrormq.testing.network_namespaces import NetworkNamespaces
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.cli.test_balancing import DEADLINE_S, mirrormq, program, wait_for


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
