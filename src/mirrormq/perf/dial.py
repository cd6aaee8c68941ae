"""Opening a connection the slow and careful way: blocking, decoded, with every refusal put in words."""

from __future__ import annotations

import socket
import struct

from mirrormq.perf.frames import FRAME_END, HEARTBEAT, METHOD, frame
from mirrormq.perf.link import Link, reply_text, room_for
from mirrormq.perf.options import Address, PerfError
from mirrormq.perf.tls import Tls
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_MAX_BYTES = 131072
"""RabbitMQ's default; a broker that allows more is not asked for it, so that numbers compare."""

CLIENT_PROPERTIES: dict[str, object] = {
    "product": "mirrormq perf",
    "capabilities": {
        "publisher_confirms": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "authentication_failure_close": True,
    },
}

_HEAD = struct.Struct(">BHI")
_CLOSES = (methods.CONNECTION_CLOSE, methods.CHANNEL_CLOSE)


class Dialer:
    """A blocking connection with one open channel; `release` hands its socket to a Link."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        try:
            self.socket = socket.create_connection((address.host, address.port), timeout_s)
        except OSError as error:
            raise PerfError(
                f"cannot connect to {address.host}:{address.port} ({error}); is a broker running there?"
            ) from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is not None:
            self.socket = self._encrypted(address.tls)
        self.frame_max = FRAME_MAX_BYTES
        self.heartbeat_s = 0
        self._buffer = bytearray()
        try:
            self._open()
        except BaseException:
            self.socket.close()
            raise

    def _encrypted(self, tls: Tls) -> socket.socket:
        name = tls.server_name_indication or self.address.host
        try:
            return tls.context().wrap_socket(self.socket, server_hostname=name)
        except OSError as error:
            self.socket.close()
            raise PerfError(f"cannot speak TLS with {self._where} ({error})") from None

    def _open(self) -> None:
        self._write(PROTOCOL_HEADER)
        self._expect(methods.CONNECTION_START)
        address = self.address
        response = f"\0{address.user}\0{address.password}".encode()
        start_ok = methods.encode_connection_start_ok(table_of(CLIENT_PROPERTIES), "PLAIN", response, "en_US")
        self._write(frame(METHOD, 0, start_ok))
        tune = methods.decode_connection_tune(self._expect(methods.CONNECTION_TUNE))
        self.frame_max = min(tune.frame_max or FRAME_MAX_BYTES, FRAME_MAX_BYTES)
        self.heartbeat_s = tune.heartbeat
        tune_ok = methods.encode_connection_tune_ok(tune.channel_max, self.frame_max, tune.heartbeat)
        self._write(frame(METHOD, 0, tune_ok))
        self.call(methods.encode_connection_open(address.vhost), methods.CONNECTION_OPEN_OK, channel=0)
        self.call(methods.encode_channel_open(), methods.CHANNEL_OPEN_OK)

    def call(self, payload: bytes, answer: int, channel: int = 1) -> bytes:
        """Send a method and wait for its answer, which is returned undecoded."""
        self._write(frame(METHOD, channel, payload))
        return self._expect(answer)

    def declare_queue(
        self, queue: str, *, durable: bool, exclusive: bool = False, passive: bool = False, kind: str = ""
    ) -> int:
        """Declare a queue, of a kind if not of the broker's usual one; says how many messages are ready."""
        arguments = table_of({"x-queue-type": kind}) if kind else {}
        payload = methods.encode_queue_declare(queue, passive, durable, exclusive, arguments=arguments)
        answer = methods.decode_queue_declare_ok(self.call(payload, methods.QUEUE_DECLARE_OK))
        return answer.message_count

    def prefetch(self, count: int) -> None:
        """Bound what the broker may send ahead of acknowledgements; 0 = no bound."""
        self.call(methods.encode_basic_qos(prefetch_count=count), methods.BASIC_QOS_OK)

    def release(self, body_bytes: int, *, one: bool = False) -> Link:
        """Give the socket to a non-blocking Link."""
        return Link(self.socket, self.frame_max, self.heartbeat_s, room_for(body_bytes, one=one))

    def close(self) -> None:
        """Close the connection properly, as far as the broker lets us."""
        try:
            close = methods.encode_connection_close(200, "done", 0, 0)
            self.call(close, methods.CONNECTION_CLOSE_OK, channel=0)
        except PerfError:
            pass
        self.socket.close()

    def _write(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise PerfError(f"the broker at {self._where} closed the connection ({error})") from None

    @property
    def _where(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def _expect(self, wanted: int) -> bytes:
        while True:
            kind, payload = self._read_frame()
            if kind == HEARTBEAT:
                continue
            method = int.from_bytes(payload[:4], "big") if kind == METHOD else 0
            if method == wanted:
                return payload
            if method in _CLOSES:
                raise PerfError(f"the broker at {self._where} refused: {reply_text(payload)}")
            if method not in (methods.CONNECTION_BLOCKED, methods.CONNECTION_UNBLOCKED):
                raise PerfError(f"the broker at {self._where} sent method {method:#x} instead of {wanted:#x}")

    def _read_frame(self) -> tuple[int, bytes]:
        self._fill(_HEAD.size)
        if self._buffer[:4] == b"AMQP":
            raise PerfError(f"the broker at {self._where} does not speak AMQP 0-9-1")
        kind, _channel, size = _HEAD.unpack_from(self._buffer)
        self._fill(_HEAD.size + size + 1)
        payload = bytes(self._buffer[_HEAD.size : _HEAD.size + size])
        if kind not in (METHOD, HEARTBEAT) or self._buffer[_HEAD.size + size] != FRAME_END:
            raise PerfError(f"what listens at {self._where} does not speak AMQP 0-9-1")
        del self._buffer[: _HEAD.size + size + 1]
        return kind, payload

    def _fill(self, count: int) -> None:
        if count > FRAME_MAX_BYTES + _HEAD.size + 1:
            raise PerfError(f"what listens at {self._where} does not speak AMQP 0-9-1")
        while len(self._buffer) < count:
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                raise PerfError(f"the broker at {self._where} did not answer in time") from None
            except OSError as error:
                raise PerfError(f"the broker at {self._where} closed the connection ({error})") from None
            if not data:
                raise PerfError(
                    f"the broker at {self._where} closed the connection; wrong user, password or vhost?"
                )
            self._buffer += data
