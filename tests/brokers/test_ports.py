"""Ports for nodes that are about to start are given to one process at a time."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mirrormq.testing.port_allocator import BLOCK_PORTS, PORTS, PortAllocator

DEALING = """
from mirrormq.testing.port_allocator import PortAllocator
import sys
dealer = PortAllocator()
print(*(port for _ in range(40) for first in [dealer.neighbours(9)] for port in range(first, first + 9)))
sys.stdout.flush()
sys.stdin.read()
"""
"""Takes 360 ports without listening on them, and keeps them until its input ends."""


@contextmanager
def dealer(ports: range) -> Iterator[PortAllocator]:
    made = PortAllocator(ports)
    try:
        yield made
    finally:
        made.close()


def a_free_range() -> range:
    """A block that nobody uses, beside those that other tests are given."""
    with dealer(range(PORTS.stop, PORTS.stop + 20 * BLOCK_PORTS)) as found:
        first = found.neighbours(BLOCK_PORTS - 1)
    return range(first - 1, first - 1 + BLOCK_PORTS)


def test_processes_side_by_side_are_never_given_each_others_ports() -> None:
    load_clients = [
        subprocess.Popen(
            [sys.executable, "-c", DEALING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    given = [
        [int(port) for port in load_client.stdout.readline().split()]
        for load_client in load_clients
        if load_client.stdout
    ]
    for load_client in load_clients:
        load_client.communicate()
    assert [len(set(ports)) for ports in given] == [360, 360]
    assert not set(given[0]) & set(given[1])


def test_a_port_in_use_is_passed_over_and_one_that_was_given_comes_again_last() -> None:
    ports = a_free_range()
    with dealer(ports) as ours, socket.socket() as used:
        used.bind(("127.0.0.1", ports.start + 5))
        given = [ours.neighbours(1) for _ in range(BLOCK_PORTS - 2)]
        assert sorted(given) == [port for port in ports[1:] if port != ports.start + 5]
        assert ours.neighbours(1) == given[0]
        assert ours.neighbours(10) == ports.start + 6, "neighbours do not reach over one in use"


def test_a_block_is_another_process_s_until_that_has_ended() -> None:
    ports = a_free_range()
    with dealer(ports) as ours:
        ours.neighbours(1)
        with dealer(ports) as others, pytest.raises(RuntimeError, match="in use by another process"):
            others.neighbours(1)
    with dealer(ports) as others:
        assert others.neighbours(1) in ports
