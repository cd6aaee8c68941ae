"""The sockets of a node's clients: how many there may be, which are read from, which have output.

A socket is not read from while its connection is *held* (see connections/connection.py), and for a
moment when it *rests* so that the consumers of a congested queue can catch up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.runtime.large_reads import LARGE_READ_BYTES

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection
    from mirrormq.runtime.amqp_socket import AmqpSocket

Later = Callable[[float, Callable[[], None]], object]


class ClientSockets:
    """Every accepted socket."""

    def __init__(self, most: int, later: Later) -> None:
        self.most = most
        """How many there may be."""
        self._later = later
        self.accepted: set[AmqpSocket] = set()
        self.refusing = False
        """The last client that wanted to connect was one too many."""
        self.by_connection: dict[Connection, AmqpSocket] = {}
        self._paused: dict[AmqpSocket, None] = {}
        self._resting: dict[AmqpSocket, None] = {}
        self.large_reads = memoryview(bytearray(LARGE_READ_BYTES))
        """What a client sends in large pieces is read to here; the next read of any client overwrites it."""

    def admit(self, socket: AmqpSocket) -> bool:
        """May this client connect?"""
        self.refusing = len(self.accepted) >= self.most
        if not self.refusing:
            self.accepted.add(socket)
        return not self.refusing

    def dismiss(self, socket: AmqpSocket) -> None:
        """A socket is gone."""
        self.accepted.discard(socket)
        self._paused.pop(socket, None)
        self._resting.pop(socket, None)

    def write(self, connections: dict[Connection, None]) -> None:
        """Send what these connections have put out."""
        while connections:
            connection, _ = connections.popitem()
            socket = self.by_connection.get(connection)
            if socket is not None:
                socket.write()

    def pause(self, socket: AmqpSocket) -> None:
        """Its connection is held."""
        self._paused[socket] = None

    def resume(self) -> bool:
        """Let connections take frames that are no longer held. True if any did: what they said then needs
        the end of another turn, also if they are held again, because a turn's effort is used up. Nothing
        else would end one."""
        went_on = False
        for socket in list(self._paused):
            if socket.resume():
                went_on = True
            if not socket.held:
                self._paused.pop(socket, None)
        return went_on

    def rest(self, socket: AmqpSocket) -> None:
        """A publisher rests until its queue is no longer congested, but not for long."""
        if not self._resting:
            self._later(limits.PUBLISHER_REST_S, self._wake_all)
        self._resting[socket] = None

    def wake_rested(self) -> None:
        """Publishers whose queue is no longer congested go on."""
        if self._resting:
            for socket in [socket for socket in self._resting if socket.has_rested()]:
                del self._resting[socket]
                socket.wake()

    def _wake_all(self) -> None:
        for socket in self._resting:
            socket.wake()
        self._resting.clear()

    def abort_all(self) -> None:
        """Drop every client without a word."""
        for socket in list(self.accepted):
            socket.abort()
