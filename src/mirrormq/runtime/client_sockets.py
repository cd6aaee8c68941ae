"""Client sockets of a node: the connection limit, paused reads, pending output.

A socket is not read while its connection is *held* (see connections/connection.py). A publisher's socket
also *rests* briefly, so that the consumers of a congested queue can catch up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mirrormq import limits
from mirrormq.runtime.large_reads import LARGE_READ_BYTES

if TYPE_CHECKING:
    from mirrormq.broker.connection_base import ConnectionBase
    from mirrormq.runtime.amqp_socket import AmqpSocket

Later = Callable[[float, Callable[[], None]], object]


class ConnectionSocket(Protocol):
    """Transport of a connection's bytes: a socket, or the other end inside this node."""

    @property
    def held(self) -> bool:
        """Whether the connection accepts no frames at present."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of output that the client has not received yet."""

    def resume(self) -> bool:
        """Let the connection process buffered frames; return whether it was not held."""

    def has_rested(self) -> bool:
        """Return whether the queue that the publisher rests for is no longer congested."""

    def wake(self) -> None:
        """End the rest."""

    def write(self) -> None:
        """Pass the connection's output on."""


class ClientSockets:
    """Registry of all accepted client sockets."""

    def __init__(self, most: int, later: Later) -> None:
        self.most = most
        """Maximum number of accepted sockets."""
        self._later = later
        self.accepted: set[AmqpSocket] = set()
        self.refusing = False
        """The last client that tried to connect exceeded the limit."""
        self.by_connection: dict[ConnectionBase, AmqpSocket | ConnectionSocket] = {}
        self._paused: dict[AmqpSocket | ConnectionSocket, None] = {}
        self._resting: dict[ConnectionSocket, None] = {}
        self.large_reads = memoryview(bytearray(LARGE_READ_BYTES))
        """Shared buffer for large reads. The next read of any client overwrites it."""

    def admit(self, socket: AmqpSocket) -> bool:
        """Register the socket unless the limit is reached. Return whether the client may connect."""
        self.refusing = len(self.accepted) >= self.most
        if not self.refusing:
            self.accepted.add(socket)
        return not self.refusing

    def dismiss(self, socket: AmqpSocket) -> None:
        """Remove a closed socket."""
        self.accepted.discard(socket)
        self.leave(socket)

    def leave(self, socket: ConnectionSocket) -> None:
        """Forget that a socket waits."""
        self._paused.pop(socket, None)
        self._resting.pop(socket, None)

    def write(self, connections: dict[ConnectionBase, None]) -> None:
        """Write the output of `connections` to their sockets."""
        while connections:
            connection, _ = connections.popitem()
            socket = self.by_connection.get(connection)
            if socket is not None:
                socket.write()

    def pause(self, socket: ConnectionSocket) -> None:
        """Record that the socket's connection is held."""
        self._paused[socket] = None

    def resume(self) -> bool:
        """Resume connections that are no longer held. Return whether any was.

        The frames of a resumed connection need the end of another turn, and only the caller can schedule
        it. That is also true if the connection is held again because it has used up its share of the turn.
        """
        resumed = False
        if not self._paused:
            return resumed
        for socket in list(self._paused):
            if socket.resume():
                resumed = True
            if not socket.held:
                self._paused.pop(socket, None)
        return resumed

    def rest(self, socket: ConnectionSocket) -> None:
        """Let a publisher rest until its queue is no longer congested, at most `PUBLISHER_REST_S`."""
        if not self._resting:
            self._later(limits.PUBLISHER_REST_S, self._wake_all)
        self._resting[socket] = None

    def wake_rested(self) -> None:
        """Resume publishers whose queue is no longer congested."""
        if self._resting:
            for socket in [socket for socket in self._resting if socket.has_rested()]:
                del self._resting[socket]
                socket.wake()

    def _wake_all(self) -> None:
        for socket in self._resting:
            socket.wake()
        self._resting.clear()

    def abort_all(self) -> None:
        """Abort every client socket without connection.close."""
        for socket in list(self.accepted):
            socket.abort()
