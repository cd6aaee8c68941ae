"""TLS listener behind a load balancer with the PROXY protocol: an unencrypted header precedes TLS.

An ordinary TLS listener would take the header for a handshake. This listener accepts sockets itself, reads
exactly the octets of the header, and then passes the socket to the loop for TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, cast

from mirrormq.connections.proxy_protocol import Ends, Incomplete, ProxyHeaderInvalid, read_proxy_header
from mirrormq.runtime.amqp_socket import AmqpSocket

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

ACCEPT_PAUSE_S = 0.1
"""Seconds to wait after a failed accept: exhausted file handles do not return at once."""


class ProxiedTlsListener:
    """Listener on one socket. Closes like an asyncio.Server."""

    def __init__(self, node: Application, context: ssl.SSLContext, listening: socket.socket) -> None:
        self._node = node
        self._context = context
        self._listening = listening
        self._reading_headers: set[asyncio.Task[None]] = set()
        self._task = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no new clients."""
        self._task.cancel()
        for task in self._reading_headers:
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
            task = loop.create_task(self._begin_tls(accepted))
            self._reading_headers.add(task)
            task.add_done_callback(self._reading_headers.discard)

    async def _begin_tls(self, accepted: socket.socket) -> None:
        loop, settings = asyncio.get_running_loop(), self._node.settings
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            ends = await asyncio.wait_for(self._ends(accepted), settings.handshake_timeout_s)
        except (ProxyHeaderInvalid, TimeoutError, OSError) as problem:
            self._node.warn(f"closing a client connection: its PROXY header is unusable: {problem}")
            accepted.close()
            return
        with contextlib.suppress(OSError, ssl.SSLError):
            await loop.connect_accepted_socket(
                lambda: cast("asyncio.Protocol", AmqpSocket(self._node, tls=True, proxied=(ends,))),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=settings.ssl_handshake_timeout_s,
            )

    async def _ends(self, accepted: socket.socket) -> Ends | None:
        """Read the header and not one octet more: the next octet belongs to TLS."""
        loop = asyncio.get_running_loop()
        header = b""
        while True:
            try:
                ends, _ = read_proxy_header(header)
            except Incomplete as incomplete:
                data = await loop.sock_recv(accepted, incomplete.missing)
                if not data:
                    raise ProxyHeaderInvalid("the client closed the connection") from None
                header += data
            else:
                return ends
