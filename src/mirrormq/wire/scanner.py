"""Cuts the byte stream of one connection into frames, and runs of equal publishes into batches.

Most of what a busy broker reads is `basic.publish`: a method frame, a header frame, a body frame,
and publishers repeat themselves. So the scanner looks at a publish as a whole. When method, header
and the only body frame lie complete in the buffer, it hands over the content as one slice of bytes;
and while the bytes that follow start with the very same method frame, header frame and body frame
head, it only compares and slices: a *run*. Everything that is not of this simple shape (bodies in
several frames, frames of other channels in between, frames cut by the end of the buffer, anything
wrong) takes the plain road, frame by frame, and the sink puts contents together by itself.

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
_CONTENT_HEADER_HEAD = Struct(">BHIHHQ").unpack_from
_BASIC_PUBLISH = b"\x00\x3c\x00\x28"
_BASIC_CLASS = 60


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

    __slots__ = ("_rest", "frame_max", "lost", "max_run", "publishing", "sink")

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

    @property
    def buffered_bytes(self) -> int:
        """How much is waiting for the rest of its frame, or for the sink."""
        return len(self._rest)

    def feed(self, data: bytes) -> None:
        """Take what the socket gave and pass on every complete frame."""
        if self.lost:
            return
        buffer = self._rest + data if self._rest else data
        size = len(buffer)
        position = 0
        sink = self.sink
        try:
            while not sink.held and size - position >= HEAD_SIZE:
                kind, channel, payload_size = _HEAD(buffer, position)
                if self.frame_max and payload_size > self.frame_max:
                    raise self._too_large(kind, payload_size)
                start = position + HEAD_SIZE
                end = start + payload_size
                if end >= size:
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
                    if after:
                        position = after
                        continue
                sink.frame(kind, channel, buffer[start:end])
        finally:
            self._rest = buffer[position:] if position else buffer

    def _too_large(self, kind: int, payload_size: int) -> AmqpError:
        self.lost = True
        most = self.frame_max - FRAME_OVERHEAD
        return unreadable_frame(kind, b"", f"{{frame_too_large,{payload_size},{most}}}")

    def _publishes(self, buffer: bytes, position: int, header_at: int, channel: int) -> int:
        """Take a run of publishes from `position`; 0 if the first one is not of the simple shape."""
        size = len(buffer)
        if size - header_at < HEAD_SIZE + 14:
            return 0
        kind, header_channel, header_size, class_id, weight, body_size = _CONTENT_HEADER_HEAD(buffer, header_at)
        header_end = header_at + HEAD_SIZE + header_size
        if kind != HEADER or header_channel != channel or header_size < 14:
            return 0
        if class_id != _BASIC_CLASS or weight:
            return 0
        if header_end >= size or buffer[header_end] != FRAME_END:
            return 0
        if self.frame_max and max(header_size, body_size) > self.frame_max - FRAME_OVERHEAD:
            return 0
        body_at = header_end + 1
        if body_size:
            prefix_end = body_at + HEAD_SIZE
            after = prefix_end + body_size + 1
            if after > size or buffer[after - 1] != FRAME_END:
                return 0
            if _HEAD(buffer, body_at) != (BODY, channel, body_size):
                return 0
        else:
            prefix_end = after = body_at
        contents = [buffer[header_at:after]]
        publish = buffer[position + HEAD_SIZE : header_at - 1]
        properties = buffer[header_at + HEAD_SIZE + 12 : header_end]
        after = _repeat(buffer, buffer[position:prefix_end], after, after - position, header_at - position,
                        contents, self.max_run)  # fmt: skip
        self.sink.publishes(channel, publish, properties, contents)
        return after


def _repeat(
    buffer: bytes, prefix: bytes, at: int, stride: int, content_at: int, contents: list[bytes], most: int
) -> int:
    """Collect the contents of further messages that start with `prefix`; returns where they end."""
    size = len(buffer)
    startswith = buffer.startswith
    append = contents.append
    while startswith(prefix, at):
        after = at + stride
        if after > size or buffer[after - 1] != FRAME_END or len(contents) >= most:
            break
        append(buffer[at + content_at : after])
        at = after
    return at
