"""Asyncio adapter of the client core: a transport, a heartbeat timer, events to a callback in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Closed, CloseReason, Event, Opened
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.client_socket import ConnectionEnded, connect_error, server_name, tls_context

WRITE_BUFFER_BYTES_MAX = 64 * 1024 * 1024
"""Unsent output above which the client aborts the connection. A publisher stops at `writable`, far below. A
broker that sends requests and reads no replies must not fill the client's memory."""

HEARTBEATS_PER_INTERVAL = 4
"""Checks of the heartbeat timer in one interval."""


class AsyncioClient(asyncio.Protocol):
    """Client connection on an event loop.

    `handle` gets every batch of events, `Closed` last. It may send on channels of `connection`; output is
    written when it returns. Other code calls `flush`.
    """

    def __init__(
        self,
        uri: AmqpUri,
        options: ClientOptions,
        handle: Callable[[list[Event]], None],
        resumed: Callable[[], None] = lambda: None,
        write_buffer_bytes_max: int = WRITE_BUFFER_BYTES_MAX,
    ) -> None:
        self.uri = uri
        self._write_buffer_bytes_max = write_buffer_bytes_max
        self.connection = ClientConnection(options)
        self.writable = True
        """False while the transport's buffer is full; `resumed` is called when it has room again."""
        self._handle = handle
        self._resumed = resumed
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Connect and wait until the connection is open; raises ConnectionEnded."""
        uri = self.uri
        try:
            async with asyncio.timeout(uri.connection_timeout_ms / 1000):
                context = tls_context(uri)
                name = server_name(uri) if context is not None else None
                # asyncio takes "" for "no name to check", None for the host.
                hostname = (name or "") if context is not None else None
                await self._loop.create_connection(
                    lambda: self, uri.host, uri.port, ssl=context, server_hostname=hostname
                )
                await self._opened
        except TimeoutError:
            text = f"the broker at {uri.where} did not answer within {uri.connection_timeout_ms} ms"
            self._end(self.connection.lost(text, CloseReason.TIMEOUT))
            raise ConnectionEnded(Closed(CloseReason.TIMEOUT, text)) from None
        except OSError as error:
            raise connect_error(uri, error) from None
        except BaseException:
            self.abort("the attempt to connect was given up")
            raise

    def flush(self) -> None:
        """Write the output of connection and channels."""
        transport = self._transport
        if transport is not None and (data := self.connection.take_output()):
            transport.write(data)

    def close(self) -> None:
        """Close after the broker has handled everything sent before; a `Closed` event follows."""
        self.connection.close()
        self.flush()

    def abort(self, text: str) -> None:
        """Close the socket without connection.close: the broker requeues unacked deliveries."""
        self._end(self.connection.lost(text, CloseReason.CLIENT))

    def read(self, reading: bool) -> None:
        """Stop or resume reading the socket."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            (transport.resume_reading if reading else transport.pause_reading)()

    # -- called by the event loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._take(self.connection.receive(data))

    def eof_received(self) -> None:
        self._end(self.connection.lost(f"the broker at {self.uri.where} closed the connection"))

    def connection_lost(self, error: Exception | None) -> None:
        why = f"broke ({error})" if error is not None else "has ended"
        self._end(self.connection.lost(f"the connection to {self.uri.where} {why}"))

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._resumed()
        self.flush()

    # -- internals ------------------------------------------------------------------------------

    def _take(self, events: list[Event]) -> None:
        if self.connection.finished:
            self._end(events, hang_up=False)
            return
        if events:
            if not self._opened.done() and any(isinstance(event, Opened) for event in events):
                self._opened.set_result(None)
                self._check_heartbeats()
            self._handle(events)
        self.flush()
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > self._write_buffer_bytes_max:
            text = f"the broker at {self.uri.where} does not read what it is sent"
            self._end(self.connection.lost(text, CloseReason.PROTOCOL_ERROR))

    def _check_heartbeats(self) -> None:
        interval_s = self.connection.heartbeat_s
        if interval_s:
            events = self.connection.tick(self._loop.time())
            if self.connection.finished:
                self._end(events)
                return
            self._take(events)
            if not self.connection.finished:
                wait_s = interval_s / HEARTBEATS_PER_INTERVAL
                self._timer = self._loop.call_later(wait_s, self._check_heartbeats)

    def _end(self, events: list[Event], *, hang_up: bool = True) -> None:
        """Deliver the last events, then close the transport and the timer."""
        # transport.close() first sends its buffer. A broker that does not read would keep socket and buffer
        # for ever, so a connection that is given up aborts instead.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and hang_up:
            self._transport.abort()
        elif self._transport is not None:
            self.flush()  # connection.close-ok
            self._transport.close()
        closed = next((event for event in events if isinstance(event, Closed)), None)
        if closed is not None and not self._opened.done():
            self._opened.set_exception(ConnectionEnded(closed))
            # Marks it as retrieved: an attempt that is given up while it connects awaits it no more.
            self._opened.exception()
        if events:
            self._handle(events)
