"""TLS behind a balancer that speaks the PROXY protocol: the header comes first, in the clear.

An ordinary TLS listener would take the header for a handshake. So this one accepts by itself, reads
exactly the octets of the header from the bare socket, and hands the socket to the loop from there on.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from mirrormq.connections.proxy_protocol import Ends, Incomplete, ProxyHeaderInvalid, read_proxy_header
from mirrormq.runtime.amqp_socket import AmqpSocket

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

ACCEPT_PAUSE_S = 0.1
"""Pause after a failed accept: file handles that ran out are not back at once."""


class ProxiedTlsListener:
    """Accepts clients on one listening socket; closes like an asyncio.Server."""

    def __init__(self, node: Application, context: ssl.SSLContext, listening: socket.socket) -> None:
        self._node = node
        self._context = context
        self._listening = listening
        self._greeting: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept nobody any more."""
        self._task.cancel()
        for task in self._greeting:
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError:
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            task = loop.create_task(self._greet(accepted))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, accepted: socket.socket) -> None:
        loop, settings = asyncio.get_running_loop(), self._node.settings
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            ends = await asyncio.wait_for(self._ends(accepted), settings.handshake_timeout_s)
        except (ProxyHeaderInvalid, TimeoutError, OSError) as problem:
            self._node.warn(f"closing a connection without a usable PROXY header: {problem}")
            accepted.close()
            return
        with contextlib.suppress(OSError, ssl.SSLError):
            await loop.connect_accepted_socket(
                lambda: AmqpSocket(self._node, tls=True, proxied=(ends,)),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=settings.ssl_handshake_timeout_s,
            )

    async def _ends(self, accepted: socket.socket) -> Ends | None:
        """Read the header and not one octet more."""
        loop = asyncio.get_running_loop()
        header = b""
        while True:
            try:
                ends, _ = read_proxy_header(header)
            except Incomplete as incomplete:
                data = await loop.sock_recv(accepted, incomplete.missing)
                if not data:
                    raise ProxyHeaderInvalid("the client left") from None
                header += data
            else:
                return ends
