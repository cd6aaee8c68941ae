"""Scanner: splits the byte stream of one connection into frames, and runs of publishes into batches.

A busy broker mostly reads `basic.publish`: a method frame, a header frame, a body frame, with much
repetition. Therefore the scanner handles a publish as a whole. When method, header and the only body frame
are complete in the buffer, it passes the method payload and the content as slices. The publishes that follow
on the same channel are passed with it (`wire.runs`). Several consecutive publishes that differ in their
bodies alone form a run, which is only compared and sliced. Everything else is passed frame by frame, and the
sink assembles the contents: bodies in several frames, interleaved frames of other channels, malformed frames.

All paths give the same messages, including the path of large bodies (`wire.large_bodies`).
`tests/wire/test_scanner.py` feeds every stream byte by byte, all at once, and out of a buffer that is reused.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from mirrormq.errors import AmqpError
from mirrormq.wire.frame_errors import unreadable_frame
from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD_SIZE, HEADER, METHOD
from mirrormq.wire.large_bodies import begins_long, large_run
from mirrormq.wire.runs import (
    ACK_SIZE,
    ALIKE_MIN,
    BASIC_ACK,
    BASIC_PUBLISH,
    CLASS_AND_WEIGHT,
    CONTENT_HEAD,
    like_the_first,
    may_be_simple,
    may_become,
    single_acks,
    starts_alike,
    u32,
    u64,
    unlike,
)

_HEAD: Final[Callable[[bytes, int], tuple[int, int, int]]] = Struct(">BHI").unpack_from

PLAIN: Final = 0
INCOMPLETE: Final = -1
"""Results of `_publishes` that are not positions."""

WHOLE_BYTES_MAX = 1024 * 1024
"""Largest body that the scanner collects in one piece if the client may send frames of any size."""


REST_PIECES_MAX = 64
"""Maximum pieces of an incomplete message; a client that sends single octets must not cost an object
for each."""


REST_SHARE: Final = 4
"""Divisor for the rest of a read: a rest larger than this part of the read is kept in place, a smaller
one is copied. A client with an incomplete frame must not keep the memory of everything it sent
before."""


class FrameSink(Protocol):
    """Receiver of the scanner's frames and publishes."""

    @property
    def held(self) -> bool:
        """Whether the sink cannot take more now; the rest stays in the scanner's buffer."""

    def may_publish(self) -> bool:
        """Return whether a publish may be passed; if not, the sink is held and the publish stays in the
        buffer."""

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Handle one frame of any kind."""

    def publishes(self, channel: int, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """Handle a run of complete publishes: one method payload, one header, one `frames` per message."""

    def acknowledges(self, channel: int, tags: list[int]) -> None:
        """Handle a run of acknowledgements, each of one delivery."""

    def publishes_mixed(
        self, channel: int, publishes: list[bytes], contents: list[bytes], header_bytes: int
    ) -> None:
        """Handle complete publishes, each with its own method payload and `frames`."""

    def publishes_one(self, channel: int, publish: bytes, content: bytes, header_bytes: int) -> None:
        """Handle one complete publish, the last of the read."""


def _is_head(buffer: bytes, at: int, kind: int, channel: int) -> bool:
    """Return whether a frame of this kind and channel starts at `at`."""
    return buffer[at] == kind and buffer[at + 1] << 8 | buffer[at + 2] == channel


class Scanner:
    """Read side of one connection after the protocol header."""

    __slots__ = (
        "_content_at",
        "_needed",
        "_rest",
        "_rest_size",
        "frame_max",
        "large_bytes",
        "lost",
        "max_run",
        "publishing",
        "sink",
        "whole_max",
    )

    def __init__(self, sink: FrameSink, frame_max: int, max_run: int = 2048) -> None:
        self.sink = sink
        self.frame_max = frame_max
        """Largest frame, overhead included, that the peer may send; 0 for no limit."""
        self.max_run = max_run
        self.whole_max = 0
        """Largest header or body that the scanner passes as a whole."""
        self.publishing = False
        """Whether publishes may be passed as a whole: the connection is open."""
        self.lost = False
        """Whether a frame was too large: the start of the next one is unknown, so nothing more is read."""
        self.large_bytes = 0
        """Size of the last publish out of a view, with method and header; 0 if something else arrived."""
        self._rest: list[bytes | memoryview] = []
        """Incomplete data in the pieces it arrived in: copied once, together with the data that
        completes it."""
        self._rest_size = 0
        self._content_at = 0
        """Offset in the rest of a publish's content, if the rest is a publish of the simple shape."""
        self._needed = 0
        """Size that the rest must reach before the next scan; 0 if unknown."""

    def open(self, frame_max: int, message_max: int) -> None:
        """Apply the tuned limits; publishes may be passed as a whole from now on."""
        self.frame_max = frame_max
        self.whole_max = min((frame_max or WHOLE_BYTES_MAX) - FRAME_OVERHEAD, message_max or WHOLE_BYTES_MAX)
        self.publishing = True

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for the rest of their frame, or for the sink."""
        return self._rest_size

    @property
    def awaited_bytes(self) -> int:
        """Bytes that are known to be missing of the incomplete frame or publish."""
        return max(0, self._needed - self._rest_size)

    def whole_messages_bytes(self, most: int) -> int:
        """Return the number of bytes to read next, at most `most`. The read then ends at a message boundary
        if all messages are as long as the last one. Then no incomplete message has to be copied once more."""
        awaited_bytes, large_bytes = self.awaited_bytes, self.large_bytes
        if not large_bytes or awaited_bytes > most:
            return most
        return (awaited_bytes + (most - awaited_bytes) // large_bytes * large_bytes) or most

    def feed(self, data: bytes | memoryview) -> None:
        """Take bytes of the socket and pass on every complete frame.

        The memory of a view is overwritten later; the scanner keeps nothing of it.
        """
        if self.lost:
            return
        if isinstance(data, memoryview):
            data = self._take_large(data)
        if not self._rest_size:
            self._scan(data, 0)
            return
        missing = self._needed - self._rest_size
        if missing > len(data) and not self.sink.held:
            self._keep(data)
        elif 0 < missing <= len(data):
            self._complete(data, missing)
        else:
            self._scan(self._with_rest(data), 0)

    def _take_large(self, view: memoryview) -> bytes:
        """Pass on the large publishes at the front of a view, and return a copy of the rest."""
        sink, at = self.sink, 0
        try:
            missing, whole = self.awaited_bytes, self._needed
            if missing <= len(view):
                self.large_bytes = 0
                at = missing if self._content_at else 0  # skip a refused publish too
                if at and self._take_split(view[:missing]):
                    self.large_bytes = whole
                elif not at and missing and not sink.held:
                    at = missing  # skip a refused frame too
                    self._scan(self._with_rest(view[:missing]), 0)
                else:
                    at = 0
            while self.publishing and not self._rest_size and not sink.held:
                run = large_run(view, at, self.max_run, self.whole_max)
                if run is None:
                    start, at = at, self._end_of_frame(view, at)
                    if at == start:
                        break
                    kind, channel, _ = _HEAD(bytes(view[start : start + HEAD_SIZE]), 0)
                    sink.frame(kind, channel, bytes(view[start + HEAD_SIZE : at - 1]))
                    continue
                if not sink.may_publish():
                    break
                self.large_bytes = (run.end - at) // len(run.contents)
                at = run.end
                sink.publishes(run.channel, run.publish, run.properties, run.contents)
        except AmqpError:
            self._keep(bytes(view[at:]))
            raise
        return bytes(view[at:])

    def _end_of_frame(self, view: memoryview, at: int) -> int:
        """Return the offset after the frame at `at` if it belongs to a publish whose body has several frames;
        `at` otherwise."""
        if len(view) - at < HEAD_SIZE:
            return at
        kind, _, size = _HEAD(bytes(view[at : at + HEAD_SIZE]), 0)
        end = at + HEAD_SIZE + size
        if end >= len(view) or view[end] != FRAME_END or (self.frame_max and size > self.frame_max):
            return at
        if kind == METHOD:
            long = begins_long(view, at, end + 1, self.whole_max) and self.sink.may_publish()
        else:
            long = kind in (HEADER, BODY)
        return end + 1 if long else at

    def _complete(self, data: bytes, missing: int) -> None:
        """Scan the rest with `missing` octets more; the data after them need not be copied for it."""
        view = memoryview(data)
        try:
            if not self._take_split(view[:missing]):
                self._scan(self._with_rest(view[:missing]), 0)
        except AmqpError:
            self._keep(view[missing:])
            raise
        if self.sink.held or self.lost:
            self._keep(view[missing:])
        elif self._rest_size:
            self._scan(self._with_rest(view[missing:]), 0)
        else:
            self._scan(data, missing)

    def _take_split(self, last: memoryview) -> bool:
        """Pass on a publish of the simple shape that arrived in pieces, of which `last` is the last.
        Its content is joined once. Return False if it must be scanned as a whole."""
        at = self._content_at
        if not at or self.sink.held or not self.sink.may_publish():
            return False
        first = memoryview(self._rest[0])
        content = b"".join((first[at:], *self._rest[1:], last))
        _, channel, header_size, _, _, body_size = CONTENT_HEAD(content, 0)
        body_at = header_size + FRAME_OVERHEAD
        # The heads in the first piece are checked. A malformed rest is left to `_scan`, which has the errors.
        if content[body_at - 1] != FRAME_END or content[-1] != FRAME_END:
            return False
        if body_size and _HEAD(content, body_at) != (BODY, channel, body_size):
            return False
        publish = bytes(first[HEAD_SIZE : at - 1])
        self._rest.clear()
        self._rest_size = self._needed = self._content_at = 0
        self.sink.publishes(channel, publish, content[HEAD_SIZE + 12 : body_at - 1], [content])
        return True

    def _keep(self, data: bytes | memoryview) -> None:
        if len(self._rest) >= REST_PIECES_MAX:
            self._rest = [b"".join(self._rest)]
        self._rest.append(data)
        self._rest_size += len(data)

    def _with_rest(self, data: bytes | memoryview) -> bytes:
        """Return the rest joined with `data`, and clear the rest."""
        self._rest.append(data)
        joined = b"".join(self._rest)
        self._rest.clear()
        self._rest_size = 0
        return joined

    def _scan(self, buffer: bytes, position: int) -> None:
        """Pass on the frames from `position` on; incomplete data becomes the rest."""
        size = len(buffer)
        sink = self.sink
        self._needed = self._content_at = 0
        try:
            while size - position >= HEAD_SIZE and not sink.held:
                kind, channel = buffer[position], buffer[position + 1] << 8 | buffer[position + 2]
                payload_size = u32(buffer, position + 3)
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
                whole = kind == METHOD and self.publishing
                method = buffer[start : start + 4] if whole else b""
                if method == BASIC_PUBLISH:
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
                elif method == BASIC_ACK and payload_size == ACK_SIZE:
                    tags = [] if buffer[end - 1] else single_acks(buffer, before, self.max_run)
                    if tags:
                        position = before + len(tags) * (ACK_SIZE + FRAME_OVERHEAD)
                        sink.acknowledges(channel, tags)
                        continue
                sink.frame(kind, channel, buffer[start:end])
        finally:
            # Also after a soft error, which closes one channel only: the frames behind it must still be read.
            if size - position > size // REST_SHARE:
                self._keep(memoryview(buffer)[position:])
            elif position < size:
                self._keep(buffer[position:])

    def _too_large(self, kind: int, payload_size: int) -> AmqpError:
        self.lost = True
        most = self.frame_max - FRAME_OVERHEAD
        return unreadable_frame(kind, b"", f"{{frame_too_large,{payload_size},{most}}}")

    def _publishes(self, buffer: bytes, position: int, header_at: int, channel: int) -> int:
        """Pass on a run of publishes from `position`, and return the offset of its end.

        Return PLAIN if the first one is not of the simple shape, INCOMPLETE if it may be but is not complete.
        """
        size = len(buffer)
        if size - header_at < HEAD_SIZE + 14:
            return INCOMPLETE if may_be_simple(buffer, position, header_at, channel) else PLAIN
        if not _is_head(buffer, header_at, HEADER, channel):
            return PLAIN
        header_size, body_size = u32(buffer, header_at + 3), u64(buffer, header_at + 11)
        if buffer[header_at + 7 : header_at + 11] != CLASS_AND_WEIGHT or header_size < 14:
            return PLAIN
        limit = self.whole_max
        if header_size > limit or body_size > limit:
            return PLAIN
        header_end = header_at + HEAD_SIZE + header_size
        body_at = header_end + 1
        after = body_at + body_size + FRAME_OVERHEAD if body_size else body_at
        if body_at <= size and buffer[header_end] != FRAME_END:
            return PLAIN
        # Wait for the content only if the method can be decoded: otherwise the client gets the error at once.
        if after > size and not may_be_simple(buffer, position, header_at, channel):
            return PLAIN
        if size < body_at + HEAD_SIZE and body_size:
            if not may_become(buffer, body_at, BODY, channel):
                return PLAIN
            # First the end of the header: if it is wrong, the client gets the error at once.
            self._needed = (body_at if size < body_at else body_at + HEAD_SIZE) - position
            return INCOMPLETE
        if body_size and (
            not _is_head(buffer, body_at, BODY, channel) or u32(buffer, body_at + 3) != body_size
        ):
            return PLAIN
        if after > size:
            self._needed, self._content_at = after - position, header_at - position
            return INCOMPLETE
        if buffer[after - 1] != FRAME_END:
            return PLAIN
        publish = buffer[position + HEAD_SIZE : header_at - 1]
        if after == size:
            self.sink.publishes_one(channel, publish, buffer[header_at:after], header_size)
            return after
        return self._pass_run(buffer, position, header_at, body_at, after, channel, publish)

    def _pass_run(
        self, buffer: bytes, position: int, header_at: int, body_at: int, after: int, channel: int,
        publish: bytes,
    ) -> int:  # fmt: skip
        """Pass on the run that begins with the complete publish at `position`, which ends at `after`. Return
        the offset of its end."""
        header_size, limit = u32(buffer, header_at + 3), self.whole_max
        contents = [buffer[header_at:after]]
        if after > body_at and starts_alike(buffer, position, header_at, body_at, after):
            after = like_the_first(buffer, position, header_at, body_at, after, contents, self.max_run, limit)
            if len(contents) >= ALIKE_MIN:
                properties = buffer[header_at + HEAD_SIZE + 12 : body_at - 1]
                self.sink.publishes(channel, publish, properties, contents)
                return after
        publishes, header_bytes = [publish] * len(contents), header_size * len(contents)
        after, more = unlike(buffer, after, channel, publishes, contents, self.max_run, limit)
        self.sink.publishes_mixed(channel, publishes, contents, header_bytes + more)
        return after
