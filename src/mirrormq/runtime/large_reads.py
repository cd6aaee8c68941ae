"""Large reads from a socket into one buffer that all sockets share.

The loop's normal read makes a bytes object of each read, which copies everything. That is cheap for many
small messages together and expensive for large ones. While large bodies arrive, this protocol replaces the
AmqpSocket at the transport. The kernel writes into the shared buffer, and the scanner copies each body out
of it once.

A read ends at the expected end of a message, if message sizes stay the same. Few bodies are then split
over two reads, which costs a second copy. The loop reads one socket at a time and passes the bytes on at
once, so one buffer is enough.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrormq import limits

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection
    from mirrormq.runtime.amqp_socket import AmqpSocket

LARGE_READ_BYTES = 1024 * 1024
"""Bytes per read: sixteen bodies of 64 KiB. Broker time per message of that size: 52 µs with this value, 58
µs with half of it, 69 µs with a quarter, 50 µs with twice as much."""

LARGE_READS_PER_TURN_BYTES = 2 * 1024 * 1024
"""Bytes of one client that a turn reads: two reads, some 2 ms of CPU time. Other clients wait for as long. A
larger share makes the turn longer and no message cheaper."""

READ_BYTES_PER_EFFORT = LARGE_READS_PER_TURN_BYTES // limits.TURN_EFFORT
"""Bytes of large reads that count as one method."""


class LargeReads(asyncio.BufferedProtocol):
    """Replacement of an AmqpSocket at its transport."""

    def __init__(self, client: AmqpSocket, connection: Connection, shared: memoryview) -> None:
        self._client = client
        self._connection = connection
        self._shared = shared

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._shared[: self._connection.whole_messages_bytes(LARGE_READ_BYTES)]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the bytes read to the client's socket."""
        self._client.data_received(self._shared[:nbytes])

    def pause_writing(self) -> None:
        """Tell the socket that the client reads too slowly."""
        self._client.pause_writing()

    def resume_writing(self) -> None:
        """Tell the socket that the client has read the buffered output."""
        self._client.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the socket that the transport is closed."""
        self._client.connection_lost(error)
