"""Connection of the load generator after its handshake: sends bytes, counts deliveries in the buffer.

Roles count confirms and deliveries themselves, in the receive buffer. Every other frame goes to the client
core, which replies to heartbeats, closes and channel.flow. A close ends the run with the broker's text.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque

from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import (
    Blocked,
    ChannelClosed,
    Closed,
    ConsumerCancelled,
    Event,
    FlowChanged,
    Returned,
    Unblocked,
)
from mirrormq.perf.perf_options import PerfError
from mirrormq.wire.frames import FRAME_MIN_BYTES, FRAME_OVERHEAD, HEAD, HEAD_SIZE

RECEIVE_BYTES = 256 * 1024
"""Bytes per read: about a thousand small deliveries, and still inside a core's cache."""

RECEIVE_ONE_BYTES = 16 * 1024
"""Bytes per read of a connection with one message in flight, of which there may be thousands."""

OUTBOX_BYTES_MAX = 8 * 1024 * 1024
"""Unsent output above which the broker counts as not reading."""

METHOD_BYTES_MAX = 4096
"""Size of basic.deliver with three short strings of 255 octets, and a header frame without headers."""

CLOSE_TIMEOUT_S = 2.0
"""Longest wait for each of the broker's last bytes."""

_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def room_for(body_bytes: int, *, one: bool) -> int:
    """Return the size of a buffer for one read and two deliveries with their frames."""
    frames = body_bytes // (FRAME_MIN_BYTES - FRAME_OVERHEAD)
    delivery_bytes = body_bytes + frames * FRAME_OVERHEAD + METHOD_BYTES_MAX
    return max(RECEIVE_ONE_BYTES if one else RECEIVE_BYTES, 2 * delivery_bytes)


class LoadConnection:
    """Non-blocking connection with one channel."""

    __slots__ = (
        "_outbox",
        "_outbox_bytes",
        "_received",
        "blocked",
        "buffer",
        "channel",
        "connection",
        "end",
        "returned_count",
        "secure",
        "socket",
        "start",
    )

    def __init__(
        self, sock: socket.socket, connection: ClientConnection, channel: ClientChannel, buffer_bytes: int
    ) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.connection, self.channel = connection, channel
        self.secure = isinstance(sock, ssl.SSLSocket)
        rest = connection.take_rest()
        self.buffer = bytearray(rest).ljust(buffer_bytes, b"\0")
        self.start, self.end = 0, len(rest)
        self.blocked = connection.blocked is not None or not channel.flow_active
        self.returned_count = 0
        self._received = True
        self._outbox: deque[memoryview] = deque()
        self._outbox_bytes = 0

    @property
    def clogged(self) -> bool:
        """Whether output waits because the broker does not read it."""
        return self._outbox_bytes > 0

    @property
    def has_unread(self) -> bool:
        """Whether TLS has decrypted bytes that the selector does not report."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0

    def send(self, data: bytes | memoryview) -> None:
        """Send as much as the socket accepts; `flush` sends the rest before any later output."""
        if not self._outbox_bytes:
            try:
                sent = self.socket.send(data)
            except _WOULD_BLOCK:
                sent = 0
            except OSError as error:
                raise PerfError(f"the broker closed the connection during a send ({error})") from None
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._outbox.append(memoryview(data))
        self._outbox_bytes += len(data)
        if self._outbox_bytes > OUTBOX_BYTES_MAX:
            raise PerfError("the broker stopped reading from a connection that owes it acknowledgements")

    def flush(self) -> None:
        """Send output that `send` could not finish."""
        while self._outbox:
            head = self._outbox[0]
            try:
                sent = self.socket.send(head)
            except _WOULD_BLOCK:
                return
            except OSError as error:
                raise PerfError(f"the broker closed the connection during a send ({error})") from None
            self._outbox_bytes -= sent
            if sent < len(head):
                self._outbox[0] = head[sent:]
                return
            self._outbox.popleft()

    def receive(self) -> None:
        """Read once into the buffer, behind bytes that the role has not consumed yet."""
        if self.start:
            rest = self.end - self.start
            self.buffer[:rest] = self.buffer[self.start : self.end]
            self.start, self.end = 0, rest
        try:
            with memoryview(self.buffer) as view:
                count = self.socket.recv_into(view[self.end :])
        except _WOULD_BLOCK:
            return
        except OSError as error:
            raise PerfError(f"the connection to the broker broke ({error})") from None
        if not count:
            raise PerfError("the broker closed the connection without a reason; look at its log")
        self.end += count
        self._received = True

    def take_frame(self) -> list[Event] | None:
        """Pass the frame at the front of the buffer to the client core; return None if it is incomplete."""
        if self.end - self.start < HEAD_SIZE:
            return None
        _kind, _channel, size = HEAD.unpack_from(self.buffer, self.start)
        after = self.start + size + FRAME_OVERHEAD
        if after > self.end:
            if size + FRAME_OVERHEAD > len(self.buffer):
                raise PerfError(f"the broker sent a frame of {size} bytes, larger than negotiated")
            return None
        events = self.connection.receive(bytes(self.buffer[self.start : after]))
        self.start = after
        for event in events:
            self._on_event(event)
        if output := self.connection.take_output():
            self.send(output)
        return events

    def _on_event(self, event: Event) -> None:
        match event:
            case Closed() | ChannelClosed():
                raise PerfError(f"the broker closed the connection or channel: {event.text}")
            case ConsumerCancelled():
                raise PerfError("the broker cancelled a consumer; was the queue deleted?")
            case Blocked() | Unblocked() | FlowChanged():
                self.blocked = self.connection.blocked is not None or not self.channel.flow_active
            case Returned():
                self.returned_count += 1

    def beat(self, now_s: float) -> None:
        """Send a heartbeat when one is due; fail if the broker is silent."""
        if self._received:
            self._received = False
            self.connection.note_received()
        for event in self.connection.tick(now_s):
            self._on_event(event)
        output = self.connection.take_output()
        if output and not self.clogged:
            self.send(output)

    def begin_close(self) -> None:
        """Send channel.close; with many connections the broker handles all of them in parallel."""
        try:
            self.socket.settimeout(CLOSE_TIMEOUT_S)
            if not self._outbox_bytes:
                self.channel.close()
                self.socket.sendall(self.connection.take_output())
        except OSError:
            return

    def close(self) -> None:
        """Wait for the close of the channel, then of the connection.

        The channel replies after it has handled every acknowledgement. RabbitMQ sometimes requeues the last
        ones if its client disconnects before that.
        """
        try:
            if not self._outbox_bytes:
                self._await(ChannelClosed)
                self.connection.close()
                self.socket.sendall(self.connection.take_output())
                self._await(Closed)
        except OSError:
            pass
        self.socket.close()

    def _await(self, kind: type[ChannelClosed | Closed]) -> None:
        """Read, blocking, until this event or the end arrives."""
        data = bytes(self.buffer[self.start : self.end])
        self.start = self.end = 0
        while not any(isinstance(event, kind | Closed) for event in self.connection.receive(data)):
            data = self.socket.recv(RECEIVE_BYTES)
            if not data:
                return
