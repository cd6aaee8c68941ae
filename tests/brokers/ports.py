"""Free loopback ports for brokers that tests start."""

from __future__ import annotations

import random
import socket

from mirrormq.testing.cluster import PORTS


def free_port() -> int:
    """A loopback TCP port nobody listens on right now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several different free ports: all are held open until the last one is known."""
    probes: dict[int, socket.socket] = {}
    try:
        while len(probes) < count:
            port, probe = random.choice(PORTS), socket.socket()
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                probe.close()
            else:
                probes[port] = probe
        return list(probes)
    finally:
        for probe in probes.values():
            probe.close()


def accepts(port: int) -> bool:
    """Whether somebody listens on this loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
