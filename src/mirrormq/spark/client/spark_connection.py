"""Blocking connection with one channel: sends methods, receives methods and contents.

The client disables heartbeats: a task may be busy with Spark for longer than any interval, and the broker
would close its connection. Time limits detect a silent broker, TCP keep-alive one that has disappeared.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from types import TracebackType
from typing import NamedTuple, Self

from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost, closed
from mirrormq.spark.client.node_address import NodeAddress
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD_SIZE, HEADER, HEARTBEAT, METHOD

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

CHANNEL = 1

FRAME_MAX_BYTES = 131072
"""Frame size: RabbitMQ's default. No broker offers less, and larger frames are no faster."""

CONNECT_TIMEOUT_S = 5.0
"""Time limit for a connection attempt and for each step of the handshake: a dead machine or a frozen process
does not reply, and there are other nodes."""

ANSWER_TIMEOUT_S = 60.0
"""Time limit for any reply: longer than a failover takes, shorter than a user's patience."""

RECEIVE_BYTES = 256 * 1024
"""Bytes per read."""

CLIENT_PROPERTIES: dict[str, object] = {
    "product": "mirrormq spark",
    "capabilities": {
        "publisher_confirms": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "authentication_failure_close": True,
    },
}

_HEAD = struct.Struct(">BHI")
_BODY_SIZE = struct.Struct(">Q")
_CONTENT = (methods.BASIC_DELIVER, methods.BASIC_RETURN, methods.BASIC_GET_OK)


class ReceivedFrame(NamedTuple):
    """Method from the broker, with its content if it has one."""

    method: int
    payload: bytes
    properties: bytes = b""
    """Encoded properties, from the flags on."""
    body: bytes | bytearray = b""


class SparkConnection:
    """Connection that is open after construction; every method may raise ConnectionLost or RequestRefused."""

    def __init__(
        self,
        address: NodeAddress,
        timeout_s: float = ANSWER_TIMEOUT_S,
        handshake_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.address = address
        self.blocked: str | None = None
        """Reason of the broker's connection.blocked while it is in force."""
        self._timeout_s = handshake_timeout_s
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._socket = self._dial()
        try:
            self._handshake()
            self._timeout_s = timeout_s
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.drop()

    # --- opening and closing ---------------------------------------------------------------------

    def _dial(self) -> socket.socket:
        address = self.address
        try:
            context = address.tls.context() if address.tls is not None else None
        except OSError as error:
            raise BrokerError(f"the files of the TLS options cannot be used ({error})") from None
        try:
            plain = socket.create_connection((address.host, address.port), self._timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is None or address.tls is None:
                return plain
            name = address.tls.server_name or address.host
            return context.wrap_socket(plain, server_hostname=name)
        except ssl.SSLError as error:
            raise ConnectionLost(f"no TLS with {address.where}: {error.reason or error}") from None
        except OSError as error:
            raise ConnectionLost(
                f"no broker answers at {address.where} ({error.strerror or error})"
            ) from None

    def _handshake(self) -> None:
        address = self.address
        self.send(PROTOCOL_HEADER)
        self._expect(methods.CONNECTION_START)
        response = f"\0{address.user}\0{address.password}".encode()
        properties = table_of(CLIENT_PROPERTIES)
        self._send_method(0, methods.encode_connection_start_ok(properties, "PLAIN", response, "en_US"))
        tune = methods.decode_connection_tune(self._expect(methods.CONNECTION_TUNE).payload)
        self.frame_max = min(tune.frame_max or FRAME_MAX_BYTES, FRAME_MAX_BYTES)
        self._send_method(0, methods.encode_connection_tune_ok(tune.channel_max, self.frame_max, 0))
        self._send_method(0, methods.encode_connection_open(address.vhost))
        self._expect(methods.CONNECTION_OPEN_OK)
        self.call(methods.encode_channel_open(), methods.CHANNEL_OPEN_OK)

    def close(self) -> None:
        """Close after the broker has handled everything sent before; close the socket in any case."""
        try:
            self._send_method(0, methods.encode_connection_close(200, "done", 0, 0))
            while self.receive(CONNECT_TIMEOUT_S).method != methods.CONNECTION_CLOSE_OK:
                pass
        except BrokerError:
            pass
        self.drop()

    def drop(self) -> None:
        """Close the socket without connection.close: unacked deliveries return to their queue."""
        self._socket.close()

    # --- sending ---------------------------------------------------------------------------------

    def call(self, payload: bytes, answer: int) -> bytes:
        """Send a method on the channel, wait for its reply and return it undecoded."""
        self._send_method(CHANNEL, payload)
        return self._expect(answer).payload

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes; blocks until the broker accepts them."""
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(data)
        except TimeoutError:
            why = f", which blocks publishers ({self.blocked})" if self.blocked else ""
            raise ConnectionLost(f"{self.address.where}{why} takes no more data") from None
        except OSError as error:
            raise self._broken(error) from None

    def _send_method(self, channel: int, payload: bytes) -> None:
        self.send(method_frame(channel, payload))

    def _expect(self, wanted: int) -> ReceivedFrame:
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            received = self.receive(max(0.0, deadline_s - time.monotonic()))
            if received.method == wanted:
                return received

    # --- receiving -------------------------------------------------------------------------------

    def receive(self, timeout_s: float | None = None) -> ReceivedFrame:
        """Return the next method; raises ConnectionLost after the time limit. Replies to protocol methods
        itself."""
        while True:
            kind, payload = self._frame(self._timeout_s if timeout_s is None else timeout_s)
            if kind == HEARTBEAT:
                continue
            if kind != METHOD:
                raise self._wrong_protocol()
            method = int.from_bytes(payload[:4], "big")
            if method in _CONTENT:
                return self._content(method, payload)
            if not self._common(method, payload):
                return ReceivedFrame(method, payload)

    def comes_within(self, timeout_s: float) -> bool:
        """Whether input is buffered, or begins to arrive within this time."""
        return self._end > self._start or self._fill(timeout_s)

    def _common(self, method: int, payload: bytes) -> bool:
        if method == methods.CONNECTION_CLOSE:
            close = methods.decode_connection_close(payload)
            raise closed(close.reply_code, close.reply_text)
        if method == methods.CHANNEL_CLOSE:
            ended = methods.decode_channel_close(payload)
            raise closed(ended.reply_code, ended.reply_text)
        if method == methods.CONNECTION_BLOCKED:
            self.blocked = methods.decode_connection_blocked(payload).reason
        elif method == methods.CONNECTION_UNBLOCKED:
            self.blocked = None
        elif method == methods.CHANNEL_FLOW:
            active = methods.decode_channel_flow(payload).active
            self._send_method(CHANNEL, methods.encode_channel_flow_ok(active))
        else:
            return False
        return True

    def _content(self, method: int, payload: bytes) -> ReceivedFrame:
        kind, header = self._frame(self._timeout_s)
        if kind != HEADER:
            raise self._wrong_protocol()
        size = _BODY_SIZE.unpack_from(header, 4)[0]
        kind, body = self._frame(self._timeout_s) if size else (BODY, b"")
        if len(body) == size and kind == BODY:
            return ReceivedFrame(method, payload, header[12:], body)
        whole = bytearray(body)
        while kind == BODY and len(whole) < size:
            kind, piece = self._frame(self._timeout_s)
            whole += piece
        if kind != BODY or len(whole) != size:
            raise self._wrong_protocol()
        return ReceivedFrame(method, payload, header[12:], whole)

    def _frame(self, timeout_s: float) -> tuple[int, bytes]:
        while self._end - self._start < HEAD_SIZE:
            self._fill_or_raise(timeout_s)
        kind, _channel, size = _HEAD.unpack_from(self._buffer, self._start)
        if size + FRAME_OVERHEAD > RECEIVE_BYTES:
            raise self._wrong_protocol()
        while self._end - self._start < size + FRAME_OVERHEAD:
            self._fill_or_raise(timeout_s)
        at = self._start + HEAD_SIZE
        if self._buffer[at + size] != FRAME_END:
            raise self._wrong_protocol()
        self._start = at + size + 1
        return kind, bytes(self._view[at : at + size])

    def _fill_or_raise(self, timeout_s: float) -> None:
        if not self._fill(timeout_s):
            raise ConnectionLost(f"{self.address.where} did not answer in time")

    def _fill(self, timeout_s: float) -> bool:
        """Read once, behind unused bytes; return False if nothing arrived in time."""
        rest = self._end - self._start
        if self._start:
            self._buffer[:rest] = self._buffer[self._start : self._end]
            self._start, self._end = 0, rest
        try:
            self._socket.settimeout(timeout_s)
            count = self._socket.recv_into(self._view[rest:])
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise self._broken(error) from None
        if not count:
            raise ConnectionLost(f"{self.address.where} closed the connection")
        self._end += count
        return True

    def _broken(self, error: OSError) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.address.where} broke ({error.strerror or error})")

    def _wrong_protocol(self) -> ConnectionLost:
        return ConnectionLost(f"what listens at {self.address.where} does not speak AMQP 0-9-1")
