"""HTTP request and its response, in the form an ASGI application uses."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import h11

from mirrormq.management.managed_node import GONE, ClientGone

if TYPE_CHECKING:
    from mirrormq.runtime.http_connection import HttpConnection

Message = MutableMapping[str, Any]

DISCONNECT = {"type": "http.disconnect"}


class HttpExchange:
    """ASGI `receive` and `send` of one request."""

    def __init__(self, connection: HttpConnection, scope: dict[str, Any], *, head_only: bool) -> None:
        self._connection = connection
        self.scope = scope
        self._head_only = head_only
        self._body = bytearray()
        self.body_complete = False
        self._body_given = False
        self.answered = False
        """The socket has received the complete response."""
        self._started = False
        self._changed = asyncio.Event()
        """Set when more of the body has arrived, or the client is gone."""
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        scope[GONE] = self._gone

    # -- used by the connection -----------------------------------------------------------------

    def add_body(self, data: bytes) -> int:
        """Append a piece of the body. Return the bytes that wait."""
        self._body += data
        self._changed.set()
        return len(self._body)

    def end_body(self) -> None:
        self.body_complete = True
        self._changed.set()

    def lost(self) -> None:
        """Record that the connection is closed."""
        if not self._gone.done():
            self._gone.set_result(None)
        self._changed.set()

    # -- used by the application ----------------------------------------------------------------

    async def receive(self) -> Message:
        """Return the next piece of the body, or `http.disconnect`."""
        if not self.body_complete:
            self._connection.continue_body()
        while not (self._body or self.body_complete or self._gone.done()) or self._body_given:
            if self._gone.done():
                return DISCONNECT
            self._changed.clear()
            await self._changed.wait()
        if self._gone.done() and not self.body_complete:
            return DISCONNECT
        body = bytes(self._body)
        self._body.clear()
        self._body_given = self.body_complete
        self._connection.body_taken()
        return {"type": "http.request", "body": body, "more_body": not self.body_complete}

    async def send(self, message: Message) -> None:
        """Send a part of the response. Raise OSError if the client is gone."""
        if self._gone.done():
            raise ClientGone
        if message["type"] == "http.response.start":
            headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
            self._connection.start_answer(message["status"], headers)
            self._started = True
            return
        body = message.get("body", b"")
        if body and not self._head_only:
            self._connection.send(h11.Data(data=body))
        if not message.get("more_body", False):
            self._connection.send(h11.EndOfMessage())
        # Wait after the last piece too: otherwise responses to pipelined requests pile up in memory.
        await self._connection.writable.wait()
        if not message.get("more_body", False):
            self._finish()

    async def refuse(self, status: int) -> None:
        """Respond with a status only, unless a response has begun."""
        if self._started or self._gone.done():
            self._connection.close()
            return
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body"})

    def end(self) -> None:
        """Close the connection if the application returned without a complete response."""
        if not self.answered:
            self._connection.close()

    def _finish(self) -> None:
        self.answered = True
        self._body.clear()
        if not self._gone.done():
            self._gone.set_result(None)
        self._changed.set()
        self._connection.answer_complete()
