"""Port forwarding: closing it also closes connections in progress."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import pytest

from mirrormq.testing.port_forwarding import LOOPBACK, PortForwarder

CLIENTS = 20


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield listening


def test_nothing_is_left_of_clients_that_connect_while_forwarding_stops(
    listener: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    forwarder = PortForwarder(lambda which: socket.socket())
    outside = forwarder.open(0, listener.getsockname()[1])
    clients = [socket.create_connection((LOOPBACK, outside)) for _ in range(CLIENTS)]
    forwarder.close()
    del forwarder
    gc.collect()
    assert not caplog.records, "asyncio complains of tasks that nobody finished"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, outside))
    for client in clients:
        client.close()
