"""One connection of the generator after its handshake: bytes out, whole frames in, nothing waits.

What the server may say at any time is answered here, whatever the connection is for: heartbeats,
`connection.blocked`, `channel.flow`, and the closes, which end the run with the server's own words.
"""

from __future__ import annotations

import socket
import struct
from collections import deque

from mirrormq.perf.frames import (
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    RETURN,
    frame,
)
from mirrormq.perf.options import PerfError

RECEIVE_BYTES = 256 * 1024
"""One read's worth: about a thousand small deliveries, and still inside a core's cache."""

RECEIVE_ONE_BYTES = 16 * 1024
"""The same for a connection with one message in flight, of which there may be thousands."""

OUTBOX_BYTES_MAX = 8 * 1024 * 1024
"""More than this unsent means the server stopped reading; nobody may queue beyond it."""

FRAME_BODY_BYTES_MIN = 4096 - FRAME_OVERHEAD_BYTES
"""AMQP's smallest frame_max, without the frame's own octets."""
METHOD_BYTES_MAX = 4096
"""basic.deliver with three short strings of 255 octets, and a header frame without headers."""

GOODBYE_S = 2.0
"""How long a closing connection waits for each of the broker's last bytes."""

CONNECTION_CLOSE = b"\x00\x0a\x00\x32"
CONNECTION_CLOSE_OK = b"\x00\x0a\x00\x33"
CONNECTION_BLOCKED = b"\x00\x0a\x00\x3c"
CONNECTION_UNBLOCKED = b"\x00\x0a\x00\x3d"
CHANNEL_CLOSE = b"\x00\x14\x00\x28"
CHANNEL_CLOSE_OK = b"\x00\x14\x00\x29"
CLOSE_ARGUMENTS = b"\x00\xc8\x02ok\x00\x00\x00\x00"
"""200, "ok", caused by no method."""
CHANNEL_FLOW = b"\x00\x14\x00\x14"
CHANNEL_FLOW_OK = b"\x00\x14\x00\x15"
BASIC_CANCEL = b"\x00\x3c\x00\x1e"

_HEAD = struct.Struct(">BHI")


def reply_text(payload: bytes) -> str:
    """The reply text of a connection.close or channel.close payload."""
    return bytes(payload[7 : 7 + payload[6]]).decode("utf-8", "replace")


def room_for(body_bytes: int, *, one: bool) -> int:
    """A buffer that holds a read's worth, and two deliveries with their frames however large they are."""
    delivery_bytes = body_bytes + body_bytes // FRAME_BODY_BYTES_MIN * FRAME_OVERHEAD_BYTES + METHOD_BYTES_MAX
    return max(RECEIVE_ONE_BYTES if one else RECEIVE_BYTES, 2 * delivery_bytes)


class Link:
    """A non-blocking connection with one channel."""

    __slots__ = (
        "_outbox",
        "_outbox_bytes",
        "_sent_at_s",
        "blocked",
        "buffer",
        "end",
        "frame_max",
        "heartbeat_s",
        "received_at_s",
        "returned_count",
        "socket",
        "start",
    )

    def __init__(self, sock: socket.socket, frame_max: int, heartbeat_s: int, buffer_bytes: int) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s
        self.buffer = bytearray(buffer_bytes)
        self.start = self.end = 0
        self.blocked = False
        self.returned_count = 0
        self.received_at_s = self._sent_at_s = 0.0
        self._outbox: deque[memoryview] = deque()
        self._outbox_bytes = 0

    @property
    def clogged(self) -> bool:
        """Whether bytes wait because the server does not take them."""
        return self._outbox_bytes > 0

    def send(self, data: bytes | memoryview) -> None:
        """Send now what the socket takes; the rest follows by `flush`, before anything else."""
        if not self._outbox_bytes:
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise PerfError(f"the broker closed the connection while it was sent to ({error})") from None
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._outbox.append(memoryview(data))
        self._outbox_bytes += len(data)
        if self._outbox_bytes > OUTBOX_BYTES_MAX:
            raise PerfError("the broker stopped reading from a connection that owes it acknowledgements")

    def flush(self) -> None:
        """Go on with what `send` could not finish."""
        while self._outbox:
            head = self._outbox[0]
            try:
                sent = self.socket.send(head)
            except BlockingIOError:
                return
            except OSError as error:
                raise PerfError(f"the broker closed the connection while it was sent to ({error})") from None
            self._outbox_bytes -= sent
            if sent < len(head):
                self._outbox[0] = head[sent:]
                return
            self._outbox.popleft()

    def receive(self, now_s: float) -> None:
        """Read once into the buffer, behind what a role has not used yet."""
        if self.start:
            rest = self.end - self.start
            self.buffer[:rest] = self.buffer[self.start : self.end]
            self.start, self.end = 0, rest
        try:
            with memoryview(self.buffer) as view:
                count = self.socket.recv_into(view[self.end :])
        except BlockingIOError:
            return
        except OSError as error:
            raise PerfError(f"the connection to the broker broke ({error})") from None
        if not count:
            raise PerfError("the broker closed the connection without saying why; look at its log")
        self.end += count
        self.received_at_s = now_s

    def next_frame(self) -> tuple[int, bytes] | None:
        """Take one whole frame off the buffer: its type and payload."""
        if self.end - self.start < _HEAD.size:
            return None
        kind, _channel, size = _HEAD.unpack_from(self.buffer, self.start)
        after = self.start + _HEAD.size + size + 1
        if after > self.end:
            if size + FRAME_OVERHEAD_BYTES > len(self.buffer):
                raise PerfError(f"the broker sent a frame of {size} bytes, larger than was agreed")
            return None
        if self.buffer[after - 1] != FRAME_END:
            raise PerfError("the broker sent a frame without a frame end; is this an AMQP 0-9-1 broker?")
        payload = bytes(self.buffer[self.start + _HEAD.size : after - 1])
        self.start = after
        return kind, payload

    def common(self, kind: int, payload: bytes) -> bool:
        """Answer what may come on any connection; False when it was something else."""
        if kind == HEARTBEAT:
            return True
        if kind != METHOD:
            return False
        method = payload[:4]
        if method in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            raise PerfError(f"the broker refused to go on: {reply_text(payload)}")
        if method == BASIC_CANCEL:
            raise PerfError("the broker cancelled a consumer; was the queue deleted?")
        if method == CONNECTION_BLOCKED:
            self.blocked = True
        elif method == CONNECTION_UNBLOCKED:
            self.blocked = False
        elif method == CHANNEL_FLOW:
            self.blocked = not payload[4]
            self.send(frame(METHOD, 1, CHANNEL_FLOW_OK + payload[4:5]))
        elif method == RETURN:
            self.returned_count += 1
        else:
            return False
        return True

    def beat(self, now_s: float) -> None:
        """Send a heartbeat when one is due; give up on a server silent for two intervals."""
        if not self.heartbeat_s:
            return
        if not self.received_at_s:
            self.received_at_s = self._sent_at_s = now_s
        if now_s - self._sent_at_s >= self.heartbeat_s / 2:
            self._sent_at_s = now_s
            if not self.clogged:
                self.send(HEARTBEAT_FRAME)
        if now_s - self.received_at_s > 2 * self.heartbeat_s + 1:
            raise PerfError(
                f"the broker sent nothing for {2 * self.heartbeat_s} seconds, not even a heartbeat"
            )

    def say_goodbye(self) -> None:
        """Ask for the channel's close; with many connections the broker works on all of them at once."""
        try:
            self.socket.settimeout(GOODBYE_S)
            if not self._outbox_bytes:
                self.socket.sendall(frame(METHOD, 1, CHANNEL_CLOSE + CLOSE_ARGUMENTS))
        except OSError:
            return

    def close(self) -> None:
        """Wait for the channel, then the connection, to be closed.

        The channel's answer comes after it has handled every acknowledgement. A RabbitMQ whose client
        is gone before that now and then requeues the last ones.
        """
        try:
            if not self._outbox_bytes:
                self._await(CHANNEL_CLOSE_OK)
                self.socket.sendall(frame(METHOD, 0, CONNECTION_CLOSE + CLOSE_ARGUMENTS))
                self._await(CONNECTION_CLOSE_OK)
        except (OSError, PerfError):
            pass
        self.socket.close()

    def _await(self, method: bytes) -> None:
        """Read on, blocking, until this method comes; whatever else comes is of no interest any more."""
        while True:
            found = self.next_frame()
            if found is None:
                self.receive(self.received_at_s)
            elif found[0] == METHOD and found[1][:4] == method:
                return
