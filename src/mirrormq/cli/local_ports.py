"""Which ports the nodes of a local cluster get, and whether they can have them."""

from __future__ import annotations

import socket
import time
from itertools import combinations

CLUSTER_PORT_OFFSET = 20_000
"""RabbitMQ's habit: the port between nodes is the AMQP port + 20000."""

LINGER_S = 1.0
"""How long a killed process may take to give its sockets back: its threads end one by one."""

POLL_S = 0.05
PORT_MAX = 65_535


def cluster_port(amqp_port: int) -> int:
    """The first node's port for other nodes, if nobody chose one."""
    shifted = amqp_port + CLUSTER_PORT_OFFSET
    return shifted if shifted <= PORT_MAX - 99 else amqp_port - CLUSTER_PORT_OFFSET


def fault(ports: dict[str, list[int]]) -> str | None:
    """What is wrong with the ports of all nodes, by the flag that chooses the first; None if nothing is."""
    for flag, numbers in ports.items():
        if not all(1 <= number <= PORT_MAX for number in numbers):
            return f"{flag} {numbers[0]} leads to port {numbers[-1]}, and ports go from 1 to {PORT_MAX}."
    for (flag, numbers), (other, others) in combinations(ports.items(), 2):
        if both := set(numbers) & set(others):
            return f"Port {min(both)} would be used twice: choose another {flag} or {other}."
    return None


def is_taken(port: int) -> bool:
    """Does somebody listen on a loopback port?"""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stays_taken(port: int) -> bool:
    """Is a port in use, and not by a process that is just ending? One that was killed still has its sockets
    for a moment after it is said to be gone."""
    deadline = time.monotonic() + LINGER_S
    while is_taken(port):
        if time.monotonic() > deadline:
            return True
        time.sleep(POLL_S)
    return False
