"""A client that sends whatever bytes it is told to, and says what came back."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import PROTOCOL_HEADER
from mirrormq.wire.properties import BasicProperties, encode_properties

READ_TIMEOUT_S = 20.0
PLAIN_PROPERTIES = encode_properties(BasicProperties())


class Ended(Exception):
    """The broker has closed the socket."""


class RawClient:
    """One socket. Reads frame by frame; nothing is checked before it is sent."""

    def __init__(
        self, port: int, *, receive_buffer_bytes: int = 0, sock: socket.socket | None = None
    ) -> None:
        self.socket = sock or socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(READ_TIMEOUT_S)
        if sock is None:
            self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_while_taken(self, data: bytes, patience_s: float = 1.0) -> int:
        """Send until all is sent or the broker has not taken anything for a while; bytes sent."""
        self.socket.settimeout(patience_s)
        view, sent = memoryview(data), 0
        try:
            while sent < len(data):
                sent += self.socket.send(view[sent : sent + 65536])
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(READ_TIMEOUT_S)
        return sent

    def method(self, channel: int, payload: bytes) -> None:
        self.send(method_frame(channel, payload))

    def frame(self) -> tuple[int, int, bytes]:
        """Kind, channel and payload of the next frame."""
        head = self._exactly(7)
        size = int.from_bytes(head[3:7], "big")
        payload = self._exactly(size + 1)
        return head[0], int.from_bytes(head[1:3], "big"), payload[:-1]

    def answer(self) -> Any:
        """The next method, decoded; heartbeats and contents are passed over."""
        while True:
            kind, _, payload = self.frame()
            if kind == 1:
                return methods.decode_method(payload)

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                raise Ended from None
            if not data:
                raise Ended
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def log_in(
        self, *, user: str = "guest", password: str = "guest", heartbeat_s: int = 0, frame_max: int = 131072,
        channel_max: int = 2047, vhost: str = "/", capabilities: dict[str, object] | None = None,
    ) -> RawClient:  # fmt: skip
        """The whole handshake."""
        from mirrormq.wire.fields import table_of

        self.send(PROTOCOL_HEADER)
        self.expect("ConnectionStart")
        known = capabilities or {"authentication_failure_close": True, "connection.blocked": True}
        credentials = b"\0" + user.encode() + b"\0" + password.encode()
        properties = table_of({"capabilities": known})
        self.method(0, methods.encode_connection_start_ok(properties, "PLAIN", credentials, "en_US"))
        self.expect("ConnectionTune")
        self.method(0, methods.encode_connection_tune_ok(channel_max, frame_max, heartbeat_s))
        self.method(0, methods.encode_connection_open(vhost))
        self.expect("ConnectionOpenOk")
        return self

    def open_channel(self, number: int = 1) -> RawClient:
        self.method(number, methods.encode_channel_open())
        self.expect("ChannelOpenOk")
        return self

    def declare(self, queue: str, **how: Any) -> RawClient:
        self.method(1, methods.encode_queue_declare(queue, **how))
        self.expect("QueueDeclareOk")
        return self

    def expect(self, name: str) -> Any:
        """The next method, which must be of this kind."""
        found = self.answer()
        assert type(found).__name__ == name, found
        return found

    def until_closed(self, deadline_s: float = READ_TIMEOUT_S) -> float:
        """Read and discard until the broker closes; seconds that it took."""
        started = time.monotonic()
        self.socket.settimeout(deadline_s)
        try:
            while self.socket.recv(65536):
                assert time.monotonic() - started < 3 * deadline_s, "the broker goes on sending"
        except ConnectionResetError:
            pass
        return time.monotonic() - started


@contextmanager
def raw_client(port: int, **options: Any) -> Iterator[RawClient]:
    """A raw client that is closed in the end."""
    client = RawClient(port, **options)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def ready_client(port: int, **options: Any) -> Iterator[RawClient]:
    """A raw client past its handshake, with channel 1 open."""
    receive_buffer_bytes = options.pop("receive_buffer_bytes", 0)
    with raw_client(port, receive_buffer_bytes=receive_buffer_bytes) as client:
        yield client.log_in(**options).open_channel()


def publish_bytes(
    routing_key: str, body: bytes, *, exchange: str = "", mandatory: bool = False, channel: int = 1,
    properties: bytes = PLAIN_PROPERTIES,
) -> bytes:  # fmt: skip
    """One whole publish."""
    method = methods.encode_basic_publish(exchange, routing_key, mandatory=mandatory)
    return method_frame(channel, method) + build_frames(channel, properties, body, 131072)
