"""Peers without the cookie: they get a short refusal, cost little, and are logged."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mirrormq.peers import peer_limits
from mirrormq.peers.peer_handshake import PeerHandshake, PeerIdentity, PeerRole
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.peers.ends import COOKIE, End, linked, started, until


async def talk(port: int, data: bytes) -> bytes:
    """Send bytes to a node and read until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_a_node_with_another_cookie_gets_nothing_and_both_log_it() -> None:
    a, b = End("a@x"), End("b@x", cookie=b"wrong")
    async with started(a, b):
        b.dial(a)
        await until(lambda: a.log.having("the cookies differ") and b.log.having("the cookies differ"))
        assert a.links.peers == b.links.peers == []
        assert not a.of("up", "b@x") and not b.of("up", "a@x")
        assert "b@x" in a.log.having("the cookies differ")[0]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        PROTOCOL_HEADER,
        b"\x16\x03\x01\x02\x00" * 50,
        b"\x00\x20\x01" + b"\xff" * 32,
    ],
)
async def test_garbage_gets_one_short_refusal_and_a_log_line(garbage: bytes) -> None:
    a = End("a@x")
    async with started(a):
        answer = await talk(a.port, garbage)
        assert len(answer) <= peer_limits.REFUSAL_BYTES_MAX + 3
        await until(lambda: a.log.having("refused a peer connection"))
        assert not a.links._pending


async def test_a_flood_before_the_proof_is_cut_off_without_being_kept() -> None:
    a = End("a@x")
    async with started(a):
        hello = PeerHandshake(PeerRole.DIALLER, PeerIdentity("eve@x"), b"guess", bytes(32), "a@x").start()
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", a.port)) as eve:
            eve.setblocking(False)
            with pytest.raises((ConnectionError, OSError)):
                for _ in range(10_000):
                    await asyncio.wait_for(loop.sock_sendall(eve, hello + b"\x03\xff\x02" + bytes(60_000)), 5)
        await until(lambda: not a.links._pending)


async def test_a_silent_peer_without_handshake_is_disconnected() -> None:
    a = End("a@x", handshake_timeout_s=0.2)
    async with started(a):
        assert await talk(a.port, b"") == b""
        assert a.log.having("timed out")


async def test_many_silent_strangers_cannot_keep_a_node_out() -> None:
    a, b = End("a@x"), End("b@x")
    async with started(a, b):
        held = [
            await asyncio.open_connection("127.0.0.1", a.port)
            for _ in range(peer_limits.PENDING_HANDSHAKES_MAX + 20)
        ]
        await until(lambda: len(a.links._pending) == peer_limits.PENDING_HANDSHAKES_MAX)
        b.dial(a)
        await until(lambda: linked(a, b))
        assert len(a.links._pending) <= peer_limits.PENDING_HANDSHAKES_MAX
        for _, writer in held:
            writer.close()


async def test_strangers_cannot_fill_the_log() -> None:
    a = End("a@x")
    async with started(a):
        for _ in range(peer_limits.REFUSALS_LOGGED_MAX + 30):
            await talk(a.port, b"hello there")
        assert len(a.log.having("refused a peer connection")) == peer_limits.REFUSALS_LOGGED_MAX


async def test_a_peer_that_breaks_the_framing_loses_its_link() -> None:
    a = End("a@x")
    async with started(a):
        reader, writer = await asyncio.open_connection("127.0.0.1", a.port)
        shake = PeerHandshake(PeerRole.DIALLER, PeerIdentity("b@x"), COOKIE, bytes(range(32)), "a@x")
        writer.write(shake.start())
        while not shake.established:
            writer.write(shake.receive(await reader.read(4096)))
        await until(lambda: a.links.peers == ["b@x"])
        writer.write(b"\x7f\xff\xff\xff\x01")
        await until(lambda: a.of("down", "b@x"))
        assert "protocol error" in a.of("down", "b@x")[0]
        writer.close()
