"""Ports of the nodes in a local cluster: assignment and availability."""

from __future__ import annotations

import socket
import time
from itertools import combinations

CLUSTER_PORT_OFFSET = 20_000
"""Offset of the port between nodes from the AMQP port, as in RabbitMQ."""

LINGER_S = 1.0
"""Time that a killed process may need to release its sockets: its threads end one by one."""

POLL_S = 0.05
PORT_MAX = 65_535


def cluster_port(amqp_port: int) -> int:
    """Return the first node's default port for peers."""
    shifted = amqp_port + CLUSTER_PORT_OFFSET
    return shifted if shifted <= PORT_MAX - 99 else amqp_port - CLUSTER_PORT_OFFSET


def fault(ports: dict[str, list[int]]) -> str | None:
    """Return an error text for the ports of all nodes, keyed by the flag that chooses the first; None if
    valid."""
    for flag, numbers in ports.items():
        if not all(1 <= number <= PORT_MAX for number in numbers):
            return f"{flag} {numbers[0]} leads to port {numbers[-1]}, and ports go from 1 to {PORT_MAX}."
    for (flag, numbers), (other, others) in combinations(ports.items(), 2):
        if both := set(numbers) & set(others):
            return f"Port {min(both)} would be used twice: choose another {flag} or {other}."
    return None


def is_taken(port: int) -> bool:
    """Report whether a process listens on a loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stays_taken(port: int) -> bool:
    """Report whether a port stays in use. A killed process holds its sockets for a moment after its end."""
    deadline = time.monotonic() + LINGER_S
    while is_taken(port):
        if time.monotonic() > deadline:
            return True
        time.sleep(POLL_S)
    return False
