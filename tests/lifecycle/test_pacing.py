"""Pacing of output: clients that the node sends to without pauses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from mirrormq.runtime.tcp_tuning import UNPACED, unpace_local

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
NAME_BYTES = 16

pytestmark = pytest.mark.skipif(
    not AVAILABLE.exists(), reason="only Linux lets a socket choose how it is paced"
)


def congestion_control(client: socket.socket) -> bytes:
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES).rstrip(b"\0")


def as_an_operator_may_have_set_it(listener: socket.socket) -> None:
    """Accepted sockets begin with what their listener has: something other than ours, where there is such."""
    for name in AVAILABLE.read_text().encode().split():
        if name != UNPACED:
            with contextlib.suppress(PermissionError):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
                return


class Accepted(asyncio.Protocol):
    """Notes what its socket has before and after."""

    def __init__(self, seen: asyncio.Future[tuple[bytes, bytes]]) -> None:
        self._seen = seen

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        client = transport.get_extra_info("socket")
        before = congestion_control(client)
        unpace_local(transport)
        self._seen.set_result((before, congestion_control(client)))
        transport.close()


async def accepted(host: str) -> tuple[bytes, bytes]:
    listener = socket.socket()
    listener.bind((host, 0))
    as_an_operator_may_have_set_it(listener)
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[tuple[bytes, bytes]] = loop.create_future()
    server = await loop.create_server(lambda: Accepted(seen), sock=listener)
    async with server:
        _, writer = await asyncio.open_connection(host, listener.getsockname()[1])
        try:
            return await asyncio.wait_for(seen, 10)
        finally:
            writer.close()


def test_a_client_on_the_same_machine_is_sent_to_without_pauses() -> None:
    _, after = asyncio.run(accepted("127.0.0.1"))
    assert after == UNPACED


def own_address() -> str:
    """An address of this machine beside the loopback's, empty if there is none; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return ""


def test_for_others_it_is_left_as_it_was() -> None:
    host = own_address()
    if not host or host.startswith("127."):
        pytest.skip("no address here but the loopback's: give the machine or the container a network")
    before, after = asyncio.run(accepted(host))
    assert before == after


def test_a_socket_without_an_address_is_left_alone() -> None:
    async def made() -> None:
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        unpace_local(transport)
        transport.close()
        theirs.close()

    asyncio.run(made())
