"""Cuts the byte stream of one connection into frames, and runs of like publishes into batches.

Most of what a busy broker reads is `basic.publish`: a method frame, a header frame, a body frame,
and publishers repeat themselves. So the scanner looks at a publish as a whole. When method, header
and the only body frame lie complete in the buffer, it hands over the content as one slice of bytes;
and while what follows has the same method frame and the same properties, it only compares and slices:
a *run*, whose messages differ in their bodies alone. Everything that is not of this simple shape
(bodies in several frames, frames of other channels in between, anything wrong) takes the plain road,
frame by frame, and the sink puts contents together by itself.

Both roads give the same messages; `tests/wire/test_scanner.py` feeds every stream byte by byte and
all at once.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from mirrormq.errors import AmqpError
from mirrormq.wire.refusals import unreadable_frame

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
HEAD_SIZE = 7
FRAME_OVERHEAD = 8
"""Seven octets of head and the end octet."""

_HEAD = Struct(">BHI").unpack_from
_CONTENT_HEAD = Struct(">BHIHHQ").unpack_from
_BASIC_PUBLISH = b"\x00\x3c\x00\x28"
_BASIC_CLASS = 60
_LONG = Struct(">I").unpack_from
_LONG_LONG = Struct(">Q").unpack_from

PLAIN, INCOMPLETE = 0, -1
"""What `_publishes` says instead of a position."""

WHOLE_BODY_BYTES_MAX = 1024 * 1024
"""The largest body that is waited for in one piece where the client may send frames of any size."""


class FrameSink(Protocol):
    """Who takes what the scanner finds."""

    @property
    def held(self) -> bool:
        """The sink can take no more now; the rest stays in the scanner's buffer."""

    def may_publish(self) -> bool:
        """Asked before each publish; if not, the sink is held and the publish stays in the buffer."""

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """One frame of any kind."""

    def publishes(self, channel: int, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """A run of complete publishes: one method payload, one header, one `frames` a message."""


class Scanner:
    """The read side of one connection after the protocol header."""

    __slots__ = ("_needed", "_rest", "frame_max", "lost", "max_run", "publishing", "sink")

    def __init__(self, sink: FrameSink, frame_max: int, max_run: int = 2048) -> None:
        self.sink = sink
        self.frame_max = frame_max
        """Largest frame, overhead included, that the peer may send; 0 for no limit."""
        self.max_run = max_run
        self.publishing = False
        """Publishes may be handed over whole: the connection is open."""
        self.lost = False
        """A frame was too large: where the next one starts is not known, so nothing more is read."""
        self._rest = b""
        self._needed = 0
        """How long the rest must become before it is worth looking at; 0 if that is not known."""

    @property
    def buffered_bytes(self) -> int:
        """How much is waiting for the rest of its frame, or for the sink."""
        return len(self._rest)

    def feed(self, data: bytes) -> None:
        """Take what the socket gave and pass on every complete frame."""
        if self.lost:
            return
        rest = self._take_rest()
        if not rest:
            self._scan(data, 0)
            return
        missing = self._needed - len(rest)
        if not 0 < missing < len(data):
            self._scan(rest + data, 0)
            return
        self._scan(rest + data[:missing], 0)
        if self.sink.held or self.lost:
            self._rest += data[missing:]
        elif self._rest:
            self._scan(self._take_rest() + data[missing:], 0)
        else:
            self._scan(data, missing)

    def _take_rest(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest

    def _scan(self, buffer: bytes, position: int) -> None:
        """Pass on the frames from `position` on; what is not complete becomes the rest."""
        size = len(buffer)
        sink = self.sink
        self._needed = 0
        try:
            while not sink.held and size - position >= HEAD_SIZE:
                kind, channel, payload_size = _HEAD(buffer, position)
                if self.frame_max and payload_size > self.frame_max:
                    raise self._too_large(kind, payload_size)
                start = position + HEAD_SIZE
                end = start + payload_size
                if end >= size:
                    self._needed = end + 1 - position
                    break
                before, position = position, end + 1
                if buffer[end] != FRAME_END:
                    marker = f"{{invalid_frame_end_marker,{buffer[end]}}}"
                    raise unreadable_frame(kind, buffer[start:end], marker)
                if kind == METHOD and self.publishing and buffer.startswith(_BASIC_PUBLISH, start):
                    if not sink.may_publish():
                        position = before
                        break
                    after = self._publishes(buffer, before, position, channel)
                    if after == INCOMPLETE:
                        position = before
                        break
                    if after:
                        position = after
                        continue
                sink.frame(kind, channel, buffer[start:end])
        finally:
            if position < size:
                self._rest = buffer[position:] if position else buffer

    def _too_large(self, kind: int, payload_size: int) -> AmqpError:
        self.lost = True
        most = self.frame_max - FRAME_OVERHEAD
        return unreadable_frame(kind, b"", f"{{frame_too_large,{payload_size},{most}}}")

    def _publishes(self, buffer: bytes, position: int, header_at: int, channel: int) -> int:
        """Take a run of publishes from `position` and say where it ends.

        PLAIN if the first one is not of the simple shape, INCOMPLETE if it may be but has not all come.
        """
        size = len(buffer)
        if size - header_at < HEAD_SIZE + 14:
            return INCOMPLETE if _may_be_simple(buffer, position, header_at, channel) else PLAIN
        kind, its_channel, header_size, class_id, weight, body_size = _CONTENT_HEAD(buffer, header_at)
        if (kind, its_channel, class_id, weight) != (HEADER, channel, _BASIC_CLASS, 0) or header_size < 14:
            return PLAIN
        if max(header_size, body_size) > (self.frame_max or WHOLE_BODY_BYTES_MAX) - FRAME_OVERHEAD:
            return PLAIN
        header_end = header_at + HEAD_SIZE + header_size
        body_at = header_end + 1
        after: int = body_at + body_size + FRAME_OVERHEAD if body_size else body_at
        if after > size:
            if body_at <= size and not _may_become(buffer, body_at, BODY, channel):
                return PLAIN
            self._needed = after - position
            return INCOMPLETE
        if buffer[header_end] != FRAME_END or buffer[after - 1] != FRAME_END:
            return PLAIN
        if body_size and _HEAD(buffer, body_at) != (BODY, channel, body_size):
            return PLAIN
        contents = [buffer[header_at:after]]
        if body_size:
            after = _repeat(buffer, position, header_at, body_at, after, contents, self.max_run)
        publish = buffer[position + HEAD_SIZE : header_at - 1]
        self.sink.publishes(channel, publish, buffer[header_at + HEAD_SIZE + 12 : header_end], contents)
        return after


def _may_be_simple(buffer: bytes, position: int, header_at: int, channel: int) -> bool:
    """Could a publish of which only the method has come be of the simple shape? If something is wrong
    already the client is told so at once."""
    exchange_at = position + HEAD_SIZE + 6
    key_at = exchange_at + 1 + buffer[exchange_at] if exchange_at < header_at else header_at
    if channel == 0 or key_at >= header_at or key_at + 1 + buffer[key_at] + 2 != header_at:
        return False
    if len(buffer) - header_at >= HEAD_SIZE and _LONG(buffer, header_at + 3)[0] < 14:
        return False
    return _may_become(buffer, header_at, HEADER, channel)


def _may_become(buffer: bytes, at: int, kind: int, channel: int) -> bool:
    """Could what has come of the frame at `at` be of this kind and channel?"""
    return (kind << 16 | channel).to_bytes(3, "big").startswith(buffer[at : at + 3])


def _repeat(
    buffer: bytes, first_at: int, header_at: int, body_at: int, at: int, contents: list[bytes], most: int
) -> int:
    """Collect further messages like the one at `first_at`, which ends at `at`; returns where they end.

    Those of the same size start with the very same octets (`prefix`). Of another size, they differ
    in the two places that tell it: the octets before (`front`) and between (`back`) are the same.
    """
    size = len(buffer)
    startswith, append = buffer.startswith, contents.append
    size_at = header_at - first_at + HEAD_SIZE + 4
    front, back = buffer[first_at : first_at + size_at], buffer[first_at + size_at + 8 : body_at + 3]
    back_at, body_size_at = size_at + 8, body_at - first_at + 3
    content_at, head_size = header_at - first_at, body_at - first_at + HEAD_SIZE
    stride, prefix = at - first_at, buffer[first_at : body_at + HEAD_SIZE]
    while len(contents) < most:
        if not startswith(prefix, at):
            if at + head_size > size or not (startswith(front, at) and startswith(back, at + back_at)):
                break
            body_size = _LONG_LONG(buffer, at + size_at)[0]
            if not body_size or body_size != _LONG(buffer, at + body_size_at)[0]:
                break
            stride, prefix = head_size + body_size + 1, buffer[at : at + head_size]
        after = at + stride
        if after > size or buffer[after - 1] != FRAME_END:
            break
        append(buffer[at + content_at : after])
        at = after
    return at
