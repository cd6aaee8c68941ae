"""Port forwarding from loopback into another network namespace.

A client outside reaches a node inside through a forwarded port, also while the network between the nodes is
cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from socket import socket

CHUNK_BYTES = 256 * 1024
LOOPBACK = "127.0.0.1"


class PortForwarder:
    """All forwarded ports of a cluster, served by one thread."""

    def __init__(self, make_socket: Callable[[int], socket]) -> None:
        self._make_socket = make_socket
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="port-forwarder", daemon=True)
        self._thread.start()

    def open(self, which: int, port: int) -> int:
        """Forward to a port in a namespace; return the port outside."""
        return asyncio.run_coroutine_threadsafe(self._open(which, port), self._loop).result()

    def close(self) -> None:
        """Close all forwarded ports and their connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        while under_way := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _open(self, which: int, port: int) -> int:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                await self._forward(which, port, reader, writer)
            writer.close()

        server = await asyncio.start_server(forward, LOOPBACK, 0, limit=CHUNK_BYTES)
        self._servers.append(server)
        outside: int = server.sockets[0].getsockname()[1]
        return outside

    async def _forward(
        self, which: int, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        inside = self._make_socket(which)
        inside.setblocking(False)
        await self._loop.sock_connect(inside, (LOOPBACK, port))
        inner_reader, inner_writer = await asyncio.open_connection(sock=inside, limit=CHUNK_BYTES)
        ways = [
            asyncio.ensure_future(_copy(reader, inner_writer)),
            asyncio.ensure_future(_copy(inner_reader, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        inner_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
