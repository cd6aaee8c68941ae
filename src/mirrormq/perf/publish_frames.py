"""Prebuilt publishes and strided counting of deliveries: the techniques that keep the generator light.

Publishing. All messages of a producer are equal except for a time stamp. `PublishRun` holds a few hundred of
them back to back, and a send is a slice of it. The first and the last message of each slice carry a stamp,
the others a zero flag.

Receiving. Deliveries of equal messages are equally long and differ only in delivery tag, redelivered flag and
body. `Layout.learn` decodes one delivery. `Layout.count` then returns how many of them are consecutive in a
buffer. It compares strided slices (one C loop each) at the octets that differ if anything else is present:
frame types, sizes, class, method, frame end. The delivery tags of the first and the last must differ by
exactly the count.

A broker may exploit the same repetition, and real publishers are less regular. With `--vary` the sizes differ
from message to message, and `walk` counts the deliveries.

Anything that does not fit falls back to decoding frame by frame: unexpected frames between deliveries
(heartbeats, acks, another size) cost time, not correctness.
"""

from __future__ import annotations

import random
import struct

from mirrormq.perf.perf_options import STAMP_BYTES
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD, HEAD_SIZE, HEADER, METHOD
from mirrormq.wire.properties import PERSISTENT, BasicProperties, encode_properties

DELIVER = b"\x00\x3c\x00\x3c"
ACK = b"\x00\x3c\x00\x50"
NACK = b"\x00\x3c\x00\x78"

ACK_FRAME = struct.Struct(">BHI4sQBB")
"""Complete basic.ack: type, channel, size 13, class and method, delivery tag, multiple, frame end."""
ACK_SIZE_BYTES = ACK_FRAME.size

RUN_BYTES = 64 * 1024
"""Size of a prebuilt run. More than one loopback send accepts gains nothing and evicts the cache."""
RUN_MESSAGES_MIN = 4
RUN_MESSAGES_MAX = 1000

_STAMP = struct.Struct(">BQ")
_TAG = struct.Struct(">Q")
_SIZE = struct.Struct(">I")


def ack_frame(channel: int, tag: int, multiple: bool) -> bytes:
    """Return a complete basic.ack."""
    return ACK_FRAME.pack(METHOD, channel, 13, ACK, tag, multiple, FRAME_END)


def publish_frames(
    channel: int, exchange: str, routing_key: str, body: bytes, *, persistent: bool, frame_max: int
) -> bytes:
    """Return one message as a publisher sends it: method, header, and its body frames."""
    properties = encode_properties(BasicProperties(delivery_mode=PERSISTENT if persistent else None))
    method = method_frame(channel, methods.encode_basic_publish(exchange, routing_key))
    return method + build_frames(channel, properties, body, frame_max)


class PublishRun:
    """Consecutive messages, equal except for their sizes; a slice of them goes to the socket."""

    __slots__ = ("_ends", "_last_slot", "_stamped", "count", "data", "stamp_at")

    def __init__(self, messages: list[bytes], stamped: bool) -> None:
        self.count = len(messages)
        self.data = bytearray().join(messages)
        self._ends = [0]
        for message in messages:
            self._ends.append(self._ends[-1] + len(message))
        self._stamped = stamped
        # Offset of the body's first octet: behind the header frame and the first body frame's head.
        first = messages[0]
        method_size = int.from_bytes(first[3:7], "big") + FRAME_OVERHEAD
        header_size = int.from_bytes(first[method_size + 3 : method_size + 7], "big") + FRAME_OVERHEAD
        self.stamp_at = method_size + header_size + HEAD_SIZE
        self._last_slot = 0

    def slice(self, count: int, now_ns: int) -> memoryview:
        """Return `count` messages, the first and the last stamped with now. Valid until the next call."""
        ends = self._ends
        if self._stamped:
            if self._last_slot:
                self.data[ends[self._last_slot] + self.stamp_at] = 0
            _STAMP.pack_into(self.data, self.stamp_at, 1, now_ns)
            self._last_slot = count - 1
            if self._last_slot:
                _STAMP.pack_into(self.data, ends[self._last_slot] + self.stamp_at, 1, now_ns)
        return memoryview(self.data)[: ends[count]]


def build_run(
    exchange: str,
    routing_key: str,
    size: int,
    *,
    persistent: bool,
    frame_max: int,
    batch: int,
    vary: bool = False,
    channel: int = 1,
) -> PublishRun:
    """Build a run of messages for one producer; `batch` bounds its length when not 0.

    Bodies have `size` octets, or with `vary` half of it to one and a half times, `size` on average.
    """
    count = min(max(RUN_MESSAGES_MIN, RUN_BYTES // (size + 64)), RUN_MESSAGES_MAX)
    count = min(count, batch) if batch else count
    dice = random.Random(count)
    sizes = [dice.randint(size - size // 2, size + size // 2) if vary else size for _ in range(count)]
    messages = []
    for each in sizes:
        body = bytes(min(each, STAMP_BYTES)) + b"x" * max(0, each - STAMP_BYTES)
        messages.append(
            publish_frames(channel, exchange, routing_key, body, persistent=persistent, frame_max=frame_max)
        )
    return PublishRun(messages, min(sizes) >= STAMP_BYTES)


def walk(data: bytearray, start: int, end: int) -> tuple[int, int, int, list[int]]:
    """Count complete deliveries of any size from `start`; return the count, their end, the last tag, the
    stamps.

    Stops at the first frame that does not belong to a delivery, and at an incomplete one.
    """
    count, tag, stamps = 0, 0, []
    while start + 11 <= end and data[start] == METHOD and data[start + 7 : start + 11] == DELIVER:
        at = start + FRAME_OVERHEAD + _SIZE.unpack_from(data, start + 3)[0]
        if at + 19 > end:
            break
        remaining = _TAG.unpack_from(data, at + 11)[0]
        at += FRAME_OVERHEAD + _SIZE.unpack_from(data, at + 3)[0]
        body_at, stamped = at + HEAD_SIZE, remaining >= STAMP_BYTES
        while remaining > 0 and at + HEAD_SIZE <= end:
            size = _SIZE.unpack_from(data, at + 3)[0]
            remaining -= size
            at += FRAME_OVERHEAD + size
        if remaining or at > end:
            break
        tag = _TAG.unpack_from(data, start + 12 + data[start + 11])[0]
        if stamped and data[body_at] == 1:
            stamps.append(_TAG.unpack_from(data, body_at + 1)[0])
        count += 1
        start = at
    return count, start, tag, stamps


class Layout:
    """Byte layout of one delivery that the next ones are expected to share."""

    __slots__ = ("_head", "_marks", "_middle", "body_at", "stride", "tag_at")

    def __init__(
        self, sample: bytearray, stride: int, tag_at: int, body_at: int, marks: list[tuple[int, int]]
    ) -> None:
        self.stride = stride
        self.tag_at = tag_at
        self.body_at = body_at
        """Offset of the body, or -1 when it is too short for a stamp."""
        self._marks = marks
        # All octets between the redelivered flag and the body repeat.
        self._head, self._middle = sample[:tag_at], sample[tag_at + 9 : body_at] if body_at > 0 else b""

    @classmethod
    def learn(cls, data: bytearray, start: int, end: int) -> Layout | None:
        """Decode the delivery at `start`; return None when it is incomplete."""
        marks: list[tuple[int, int]] = []
        at, bodies, remaining, body_at = start, 0, -1, -1
        while remaining:
            if at + HEAD_SIZE > end:
                return None
            kind, _channel, size = HEAD.unpack_from(data, at)
            after = at + size + FRAME_OVERHEAD
            if after > end:
                return None
            offset = at - start
            marks += [(offset + i, data[at + i]) for i in (0, 2, 4, 5, 6)] + [(after - 1 - start, FRAME_END)]
            if kind == METHOD:
                marks += [(offset + 8, 60), (offset + 10, 60)]
            elif kind == HEADER:
                remaining = int.from_bytes(data[at + 11 : at + 19], "big")
                marks += [(offset + i, data[at + i]) for i in (16, 17, 18)]
            elif kind == BODY:
                if not bodies and size >= STAMP_BYTES:
                    body_at = offset + HEAD_SIZE
                bodies += 1
                remaining -= size
            at = after
        tag_at = HEAD_SIZE + 4 + 1 + data[start + 11]
        return cls(data[start:at], at - start, tag_at, body_at, marks)

    def count(self, data: bytearray, start: int, end: int) -> int:
        """Return the number of complete deliveries of this shape in data[start:end]; 0 when the first is not
        one."""
        stride = self.stride
        count = (end - start) // stride
        if count == 1 and self.body_at > 0:
            return self._is_one(data, start)
        while count:
            if self._fits(data, start, start + count * stride, count):
                return count
            count //= 2
        return 0

    def _is_one(self, data: bytearray, start: int) -> bool:
        """Whether one delivery has this shape; a cheaper check for connections with one message in flight."""
        return (
            data[start : start + self.tag_at] == self._head
            and data[start + self.tag_at + 9 : start + self.body_at] == self._middle
            and data[start + self.stride - 1] == FRAME_END
        )

    def _fits(self, data: bytearray, start: int, stop: int, count: int) -> bool:
        stride = self.stride
        for offset, octet in self._marks:
            if data[start + offset : stop : stride].count(octet) != count:
                return False
        return self.tag(data, stop - stride) - self.tag(data, start) == count - 1

    def tag(self, data: bytearray, start: int) -> int:
        """Return the delivery tag of the delivery at `start`."""
        tag: int = _TAG.unpack_from(data, start + self.tag_at)[0]
        return tag

    def stamps(self, data: bytearray, start: int, count: int) -> list[int]:
        """Return the clock readings in `count` deliveries, most of which carry none."""
        if self.body_at < 0:
            return []
        stride, first = self.stride, start + self.body_at
        flags = data[first : start + count * stride : stride]
        found = []
        at = flags.find(1)
        while at >= 0:
            found.append(_TAG.unpack_from(data, first + at * stride + 1)[0])
            at = flags.find(1, at + 1)
        return found
