"""Free loopback ports for brokers that tests start."""

from __future__ import annotations

import socket

from mirrormq.testing import port_allocator


def free_port() -> int:
    """A loopback TCP port that nobody uses, and no other test is given."""
    return port_allocator.free_ports(1)


def free_ports(count: int) -> list[int]:
    """Several of them."""
    first = port_allocator.free_ports(count)
    return list(range(first, first + count))


def accepts(port: int) -> bool:
    """Whether somebody listens on this loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
