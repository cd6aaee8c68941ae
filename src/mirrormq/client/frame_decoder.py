"""Frame decoder of a client: any split of the byte stream gives the same frames and events.

Most input of a client is deliveries and confirms that differ little from their predecessors. The decoder
recognises those that are complete in one read by comparing octets, and turns them into events at once. All
others go to the sink frame by frame: contents of several frames, contents split between two reads, rare
methods.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from mirrormq.client.client_events import ClientFault, CloseReason, Confirm, Delivery, Event
from mirrormq.wire import methods
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD, HEAD_SIZE, HEADER, HEARTBEAT, METHOD

HANDSHAKE_FRAME_BYTES_MAX = 64 * 1024
"""Largest frame before both sides have agreed on a limit. connection.start of RabbitMQ has 500 bytes."""

REST_PIECES_MAX = 64
"""Chunks of an incomplete frame; a broker that sends single octets must not cost an object for each."""

REST_SHARE = 4
"""The rest of a read stays in place if it is more than this fraction of the read, and is copied otherwise: an
incomplete frame must not keep the memory of all frames before it."""

_KINDS = frozenset({METHOD, HEADER, BODY, HEARTBEAT})
_PROTOCOL_HEADER_KIND: Final = ord("A")
_DELIVER: Final = methods.BASIC_DELIVER.to_bytes(4, "big")
_ACK: Final = methods.BASIC_ACK.to_bytes(4, "big")
_NACK: Final = methods.BASIC_NACK.to_bytes(4, "big")
_CONFIRM_BYTES: Final = 13
"""Payload of basic.ack and basic.nack: ids, delivery tag, flags."""
_CONFIRM_FRAME_BYTES: Final = _CONFIRM_BYTES + FRAME_OVERHEAD
_BASIC_CLASS: Final = 60
_HEADER_BYTES_MIN: Final = 14
"""Class, weight, body size, property flags."""

_head = HEAD.unpack_from
_content_head = Struct(">BHIHHQ").unpack_from
_long = Struct(">I").unpack_from
_tag_and_flags = Struct(">QB").unpack_from


class FrameSink(Protocol):
    """Receiver of frames."""

    events: list[Event]

    @property
    def finished(self) -> bool:
        """Whether the connection has ended; the decoder then stops."""

    def expects_method(self, channel: int) -> bool:
        """Whether the channel is open and not in the middle of a content."""

    def frame(self, kind: int, channel: int, payload: bytes | memoryview) -> None:
        """Handle one frame; body frames come as views."""


class FrameDecoder:
    """Decoder of one connection's input."""

    __slots__ = ("_payload_max", "_rest", "_rest_bytes", "_sink")

    def __init__(self, sink: FrameSink) -> None:
        self._sink = sink
        self._payload_max = HANDSHAKE_FRAME_BYTES_MAX - FRAME_OVERHEAD
        self._rest: list[bytes | memoryview] = []
        """Chunks of the incomplete frame."""
        self._rest_bytes = 0

    def limit(self, frame_max: int) -> None:
        """Set the largest frame, overhead included, that the broker may send."""
        self._payload_max = frame_max - FRAME_OVERHEAD

    def take_rest(self) -> bytes:
        """Return the octets of the incomplete frame, for a reader that continues with the socket itself."""
        rest = b"".join(self._rest)
        self._rest.clear()
        self._rest_bytes = 0
        return rest

    def feed(self, data: bytes) -> None:
        """Decode bytes from the socket; raises ClientFault at the first invalid octet."""
        at = self._complete(data) if self._rest_bytes else 0
        if at < len(data) and not self._sink.finished:
            self._scan(data, at)

    def _complete(self, data: bytes) -> int:
        """Complete the frame that began in an earlier read; return the position behind it in `data`."""
        at, view = 0, memoryview(data)
        if self._rest_bytes < HEAD_SIZE:
            at = min(HEAD_SIZE - self._rest_bytes, len(data))
            self._keep(data[:at])
            if self._rest_bytes < HEAD_SIZE:
                return at
        # Only the head is needed to know the size: join the chunks only if the first is too short for it.
        start = b"".join(self._rest) if len(self._rest[0]) < HEAD_SIZE else self._rest[0]
        after = at + self._frame_bytes(start, 0) - self._rest_bytes
        if after > len(data):
            self._keep(data[at:])
            return len(data)
        self._keep(view[at:after])
        self._scan(self.take_rest(), 0)
        return after

    def _keep(self, data: bytes | memoryview) -> None:
        if len(self._rest) >= REST_PIECES_MAX:
            self._rest = [b"".join(self._rest)]
        self._rest.append(data)
        self._rest_bytes += len(data)

    def _frame_bytes(self, buffer: bytes | memoryview, at: int) -> int:
        """Check the head of a frame; return the size of the whole frame."""
        kind, _channel, payload_size = _head(buffer, at)
        if kind not in _KINDS:
            if kind == _PROTOCOL_HEADER_KIND:
                text = "the broker sent a protocol header"
                raise ClientFault(CloseReason.WRONG_PROTOCOL, text)
            raise ClientFault(CloseReason.PROTOCOL_ERROR, f"the broker sent a frame of unknown type {kind}")
        if payload_size > self._payload_max:
            most = self._payload_max + FRAME_OVERHEAD
            text = f"the broker sent a frame of {payload_size + FRAME_OVERHEAD} bytes, {most} are allowed"
            raise ClientFault(CloseReason.FRAME_TOO_LARGE, text)
        size: int = payload_size + FRAME_OVERHEAD
        return size

    def _scan(self, buffer: bytes, at: int) -> None:
        """Dispatch the frames from `at` on; an incomplete one becomes the rest."""
        size, sink = len(buffer), self._sink
        view = memoryview(buffer)
        while size - at >= HEAD_SIZE:
            after = at + self._frame_bytes(buffer, at)
            if after > size:
                break
            kind, channel, payload_size = _head(buffer, at)
            start, end = at + HEAD_SIZE, after - 1
            if buffer[end] != FRAME_END:
                text = f"the broker sent a frame that ends with {buffer[end]:#04x}"
                raise ClientFault(CloseReason.PROTOCOL_ERROR, text)
            # The fast path bypasses the channel's state machine, hence only where a method is expected.
            if kind == METHOD and payload_size >= _CONFIRM_BYTES and sink.expects_method(channel):
                run_end = self._run(buffer, at, after, channel)
                if run_end:
                    at = run_end
                    continue
            sink.frame(kind, channel, view[start:end] if kind == BODY else buffer[start:end])
            at = after
            if sink.finished:
                return
        if size - at > size // REST_SHARE:
            self._keep(view[at:])
        elif at < size:
            self._keep(buffer[at:])

    def _run(self, buffer: bytes, at: int, after: int, channel: int) -> int:
        """Decode deliveries or confirms from `at` on; return their end, 0 if there is none."""
        start = at + HEAD_SIZE
        if buffer.startswith(_DELIVER, start):
            return self._deliveries(buffer, at, after, channel)
        if after - at == _CONFIRM_FRAME_BYTES:
            if buffer.startswith(_ACK, start):
                return self._confirms(buffer, at, channel, True)
            if buffer.startswith(_NACK, start):
                return self._confirms(buffer, at, channel, False)
        return 0

    def _confirms(self, buffer: bytes, at: int, channel: int, accepted: bool) -> int:
        append, startswith = self._sink.events.append, buffer.startswith
        front = buffer[at : at + HEAD_SIZE + 4]
        last = len(buffer) - _CONFIRM_FRAME_BYTES
        while at <= last and startswith(front, at) and buffer[at + _CONFIRM_FRAME_BYTES - 1] == FRAME_END:
            tag, flags = _tag_and_flags(buffer, at + HEAD_SIZE + 4)
            append(Confirm(channel, tag, flags & 1 == 1, accepted))
            at += _CONFIRM_FRAME_BYTES
        return at

    def _deliveries(self, buffer: bytes, at: int, header_at: int, channel: int) -> int:
        """Decode deliveries that equal the first in consumer, exchange, routing key and shape.

        They differ only in delivery tag, redelivered flag, properties and body. The sink handles bodies of
        more than one frame.
        """
        size, payload_max = len(buffer), self._payload_max
        append, startswith, new = self._sink.events.append, buffer.startswith, tuple.__new__
        first = methods.decode_basic_deliver(buffer[at + HEAD_SIZE : header_at - 1])
        consumer_tag, exchange, routing_key = first.consumer_tag, first.exchange, first.routing_key
        channel_octets = buffer[at + 1 : at + 3]
        tag_offset = HEAD_SIZE + 5 + buffer[at + HEAD_SIZE + 4]
        back_offset, header_offset = tag_offset + 9, header_at - at
        front = buffer[at : at + tag_offset]
        back = buffer[at + back_offset : header_at] + b"\x02" + channel_octets
        body_front = b"\x03" + channel_octets
        taken_to = 0
        while startswith(front, at) and startswith(back, at + back_offset):
            head = at + header_offset
            if head + HEAD_SIZE + _HEADER_BYTES_MIN > size:
                break
            _, _, header_size, class_id, _, body_size = _content_head(buffer, head)
            body_at = head + header_size + FRAME_OVERHEAD
            after: int = body_at + body_size + FRAME_OVERHEAD if body_size else body_at
            # Any break leaves this delivery to the sink, which completes it later or reports the fault.
            if after > size or class_id != _BASIC_CLASS or header_size < _HEADER_BYTES_MIN:
                break
            if header_size > payload_max or body_size > payload_max:
                break
            if buffer[body_at - 1] != FRAME_END or buffer[after - 1] != FRAME_END:
                break
            if body_size and not (
                startswith(body_front, body_at) and _long(buffer, body_at + 3)[0] == body_size
            ):
                break
            tag, flags = _tag_and_flags(buffer, at + tag_offset)
            properties = buffer[head + HEAD_SIZE + 12 : body_at - 1]
            body = buffer[body_at + HEAD_SIZE : after - 1] if body_size else b""
            # Not the constructor: of a NamedTuple it is a Python function, as slow as the rest of the loop.
            append(
                new(
                    Delivery,
                    (channel, consumer_tag, tag, flags & 1 == 1, exchange, routing_key, properties, body),
                )
            )
            at = taken_to = after
        return taken_to
