"""An AMQP client that expects its broker to die: one connection, one channel, everything in plain sight.

`events` waits a moment and tells what came. A broken connection is an exception like any other answer.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from mirrormq.perf.dial import Dialer
from mirrormq.perf.frames import HEARTBEAT, HEARTBEAT_FRAME, METHOD, frame
from mirrormq.perf.options import PerfError, parse_uri
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames
from mirrormq.wire.properties import BasicProperties, encode_properties

DIAL_TIMEOUT_S = 5.0
SILENCE_S = 20.0
"""A broker that says nothing for this long is gone: a frozen node keeps its connections open."""
RECEIVE_BYTES = 256 * 1024

_HEAD = struct.Struct(">BHI")
_PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
_BODY = 3


class Confirm(NamedTuple):
    """basic.ack or basic.nack from the broker."""

    tag: int
    multiple: bool
    accepted: bool


class Delivery(NamedTuple):
    """A message for a consumer."""

    tag: int
    redelivered: bool
    body: bytes


class Cancelled(NamedTuple):
    """The broker ended the consumer."""

    consumer_tag: str


Event = Confirm | Delivery | Cancelled


class Lost(Exception):
    """The connection is gone; the text says how."""


class Session:
    """One connection with one channel."""

    def __init__(self, uri: str) -> None:
        try:
            self._dialer = Dialer(parse_uri(uri), DIAL_TIMEOUT_S)
        except PerfError as error:
            raise Lost(str(error)) from None
        self._socket = self._dialer.socket
        self._buffer = bytearray()
        self._deliver: methods.BasicDeliver | None = None
        self._body = bytearray()
        self._missing_bytes = 0
        self._heard_s = self._beat_s = time.monotonic()

    # -- saying ---------------------------------------------------------------------------------

    def call(self, payload: bytes, answer: int) -> bytes:
        """A question before the load begins."""
        try:
            return self._dialer.call(payload, answer)
        except PerfError as error:
            raise Lost(str(error)) from None

    def send(self, *payloads: bytes) -> None:
        """Methods."""
        self._write(b"".join(frame(METHOD, 1, payload) for payload in payloads))

    def publish(self, queue: str, bodies: list[bytes]) -> None:
        """Persistent messages to a queue."""
        method = frame(METHOD, 1, methods.encode_basic_publish("", queue, mandatory=True))
        frames = [build_frames(1, _PERSISTENT, body, self._dialer.frame_max) for body in bodies]
        self._write(b"".join(method + content for content in frames))

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(DIAL_TIMEOUT_S)
            self._socket.sendall(data)
        except OSError as error:
            raise Lost(f"the broker took no more: {error}") from None

    def close(self) -> None:
        """Leave without waiting for anybody."""
        self._socket.close()

    # -- hearing --------------------------------------------------------------------------------

    def events(self, wait_s: float) -> Iterator[Event]:
        """What has come, after waiting for at most `wait_s` if nothing has."""
        now = time.monotonic()
        try:
            self._socket.settimeout(wait_s)
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            data = b""
            if now - self._heard_s > SILENCE_S:
                raise Lost(f"nothing heard for {SILENCE_S:g} s") from None
        except OSError as error:
            raise Lost(str(error)) from None
        else:
            if not data:
                raise Lost("the broker closed the connection")
            self._heard_s = now
        if now - self._beat_s > SILENCE_S / 4:
            self._beat_s = now
            self._write(HEARTBEAT_FRAME)
        self._buffer += data
        yield from self._frames()

    def _frames(self) -> Iterator[Event]:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= _HEAD.size:
            kind, _, size = _HEAD.unpack_from(buffer, at)
            end = at + _HEAD.size + size + 1
            if len(buffer) < end:
                break
            event = self._event(kind, bytes(buffer[at + _HEAD.size : end - 1]))
            at = end
            if event is not None:
                yield event
        del buffer[:at]

    def _event(self, kind: int, payload: bytes) -> Event | None:
        if kind == METHOD:
            return self._method(methods.decode_method(payload))
        if kind == HEARTBEAT:
            return None
        if kind == _BODY:
            self._body += payload
            self._missing_bytes -= len(payload)
        else:
            self._missing_bytes = int.from_bytes(payload[4:12], "big")
            self._body.clear()
        if self._missing_bytes or self._deliver is None:
            return None
        deliver, self._deliver = self._deliver, None
        return Delivery(deliver.delivery_tag, deliver.redelivered, bytes(self._body))

    def _method(self, method: object) -> Event | None:
        match method:
            case methods.BasicAck():
                return Confirm(method.delivery_tag, method.multiple, True)
            case methods.BasicNack():
                return Confirm(method.delivery_tag, method.multiple, False)
            case methods.BasicDeliver():
                self._deliver = method
            case methods.BasicCancel():
                return Cancelled(method.consumer_tag)
            case methods.ConnectionClose() | methods.ChannelClose():
                raise Lost(f"the broker closed: {method.reply_text}")
        return None
