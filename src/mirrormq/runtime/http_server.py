"""HTTP listeners of a node, and the tasks that process requests."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mirrormq.config.settings import Address
from mirrormq.errors import start_error
from mirrormq.management.managed_node import ClientGone
from mirrormq.runtime.http_admission import HEAD_TIMEOUT_S, HttpAdmission, is_reserved_path

if TYPE_CHECKING:
    import ssl

    from mirrormq.runtime.http_connection import HttpConnection
    from mirrormq.runtime.http_exchange import HttpExchange, Message

    Application = Callable[
        [dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
        Awaitable[None],
    ]

STOP_TIMEOUT_S = 2.0
"""Seconds that running requests may continue when the node stops."""

INTERNAL_ERROR = 500


class HttpServer:
    """Server of one ASGI application on any number of addresses."""

    def __init__(self, application: Application, warn: Callable[[str], None]) -> None:
        self._application = application
        self._warn = warn
        self.admission = HttpAdmission()
        self.stopping = False
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, address: Address, context: ssl.SSLContext | None, role: str) -> None:
        """Listen on an address. `role` identifies the listener of a request to the application."""
        loop = asyncio.get_running_loop()
        opened = False
        hosts = ["127.0.0.1", "::1"] if address.host == "localhost" else [address.host or None]
        for host in hosts:
            try:
                server = await loop.create_server(
                    lambda: self._connection(is_tls=context is not None, role=role),
                    host,
                    address.port,
                    ssl=context,
                    ssl_handshake_timeout=None if context is None else HEAD_TIMEOUT_S,
                )
            except OSError as error:
                if opened and host == "::1":
                    continue
                text = f"Cannot listen on {host}:{address.port} for {role}: {error.strerror}."
                raise start_error(text, error) from error
            self._servers.append(server)
            opened = True

    def _connection(self, *, is_tls: bool, role: str) -> HttpConnection:
        from mirrormq.runtime.http_connection import HttpConnection  # Brings h11 when a client comes.

        return HttpConnection(self, is_tls=is_tls, role=role)

    @property
    def requests(self) -> int:
        """Number of requests in progress."""
        return len(self._tasks)

    def run(self, exchange: HttpExchange, refusal: int) -> None:
        """Process a request in a separate task. With a refusal, serve monitoring paths only."""
        task = asyncio.get_running_loop().create_task(self._run(exchange, refusal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, exchange: HttpExchange, refusal: int) -> None:
        try:
            if refusal and not is_reserved_path(exchange.scope["path"]):
                await exchange.refuse(refusal)
            else:
                await self._application(exchange.scope, exchange.receive, exchange.send)
        except ClientGone:
            pass  # a client may close at any time; no log line
        except Exception as error:
            self._warn("HTTP request failed:\n" + "".join(traceback.format_exception(error)))
            await exchange.refuse(INTERNAL_ERROR)
        finally:
            exchange.end()

    def close(self) -> None:
        """Accept no new connections."""
        for server in self._servers:
            server.close()

    async def stop(self) -> None:
        """Close every connection after running requests had `STOP_TIMEOUT_S` to complete."""
        self.close()
        self.stopping = True
        for connection in list(self.admission.connections):
            connection.stop()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=STOP_TIMEOUT_S)
        for task in self._tasks:
            task.cancel()
        for connection in list(self.admission.connections):
            connection.close()
