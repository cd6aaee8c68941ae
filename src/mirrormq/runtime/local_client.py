"""Client connection to this node's own broker, without a socket: both ends exchange bytes in memory.

Links use it for URIs without a host. The broker's end is an ordinary `Connection`, so permissions, alarms,
flow control, lists and statistics treat it like any client. Only the login is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from mirrormq.auth.client_peer import Peer
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Closed, CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.client_io.client_socket import ConnectionEnded
from mirrormq.connections.connection import Connection
from mirrormq.metadata.records import User

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

UNREAD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes from the client that wait while the broker holds the connection; beyond it `writable` is false."""

_numbers = count(1)


class LocalClient:
    """Client and server end of one connection. Interface of `AsyncioClient` and of
    `client_sockets.ConnectionSocket`."""

    def __init__(
        self,
        application: Application,
        user: User,
        options: ClientOptions,
        handle: Callable[[list[Event]], None],
        resumed: Callable[[], None] = lambda: None,
    ) -> None:
        self._application = application
        self._loop = asyncio.get_running_loop()
        self.connection = ClientConnection(options)
        self._handle = handle
        self._resumed = resumed
        application.read_clock()
        self._server = Connection(application.broker, Peer("", 0, direct_user=user))
        self._server.name = f"<{application.settings.name}.{application.incarnation}.{next(_numbers)}>"
        application.sockets.by_connection[self._server] = self
        self._up: list[bytes] = []
        self._up_bytes = 0
        self._down: list[bytes] = []
        self._reading = True
        self._resting = False
        self._scheduled = False
        self._over = False

    # -- client end -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name in the lists of connections."""
        return self._server.name

    @property
    def writable(self) -> bool:
        """Whether the broker's end accepts output."""
        return self._up_bytes < UNREAD_BYTES_MAX

    async def open(self) -> None:
        """Send the protocol header; events follow. Raises ConnectionEnded if the node stops."""
        if self._over:
            raise ConnectionEnded(Closed(CloseReason.LOST, "this node stops"))
        self.flush()

    def flush(self) -> None:
        """Pass the output of connection and channels to the broker's end."""
        if data := self.connection.take_output():
            self._up.append(data)
            self._up_bytes += len(data)
            self._move_soon()

    def read(self, reading: bool) -> None:
        """Stop or resume reading: deliveries stop, replies wait."""
        self._reading = reading
        if reading:
            self._server.drained()
            self._move_soon()
        else:
            self._server.filled()
        self._application.end_turn_soon()

    def close(self) -> None:
        """Close after the broker has handled everything sent before; a `Closed` event follows."""
        self.connection.close()
        self.flush()

    def abort(self, text: str) -> None:
        """End the connection without connection.close: the broker requeues unacked deliveries."""
        self._end(text)

    # -- broker's end -----------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        return self._server.held

    @property
    def pending_bytes(self) -> int:
        return sum(map(len, self._down))

    def resume(self) -> bool:
        try:
            resumed = self._server.resume()
        except Exception as error:
            self._application.fault(self._server, error)
            resumed = True
        if not self.held:
            self._move_soon()
        return resumed

    def has_rested(self) -> bool:
        return self._server.yields_to is None or not self._server.yields_to.congested

    def wake(self) -> None:
        self._server.yields_to = None
        self._resting = False
        self._move_soon()

    def write(self) -> None:
        output = self._server.take_output()
        if output:
            traffic = self._server.traffic
            traffic.sent_bytes += sum(map(len, output))
            traffic.sent_count += 1
            self._down += output
        if not self._server.writable:
            self._application.end_turn_soon()
        self._move_soon()

    # -- both -------------------------------------------------------------------------------------

    def _move_soon(self) -> None:
        if not self._scheduled and not self._over:
            self._scheduled = True
            self._loop.call_soon(self._move)

    def _move(self) -> None:
        """Pass the waiting bytes of both directions to the other end."""
        self._scheduled = False
        if self._over:
            return
        if self._up and not self.held and not self._resting:
            self._move_up()
        if self._down and self._reading:
            output, self._down = b"".join(self._down), []
            self._handle(self.connection.receive(output))
            self.flush()
        if self.connection.finished:
            self._end("the connection has ended")
        elif self._server.finished and not self._down:
            self._end("this node closed the connection")

    def _move_up(self) -> None:
        application, server = self._application, self._server
        was_writable = self.writable
        data, self._up, self._up_bytes = b"".join(self._up), [], 0
        application.turns.input_arrived()
        try:
            server.receive(data)
        except Exception as error:
            application.fault(server, error)
        if server.held:
            application.sockets.pause(self)
        elif server.yields_to is not None:
            self._resting = True
            application.sockets.rest(self)
        if not was_writable:
            self._resumed()
            self.flush()

    def _end(self, text: str) -> None:
        if self._over:
            return
        self._over = True
        application = self._application
        application.sockets.by_connection.pop(self._server, None)
        application.sockets.leave(self)
        application.read_clock()
        try:
            self._server.lost()
        except Exception as error:
            application.fault(self._server, error)
        application.end_turn_soon()
        self._up, self._down = [], []
        if events := self.connection.lost(text):
            self._handle(events)
