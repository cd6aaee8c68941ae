"""Message framing on peer links: 4 bytes of length, 1 byte of kind, the payload.

A heartbeat has kind 0 and no payload. Every other kind is a set of flags: urgent lane, payload in msgpack
or raw bytes, more of the same message follows. Long messages travel in chunks. The two lanes are
reassembled separately, so chunks of one may come between chunks of the other; each lane keeps its order.

The same messages come out, and the same failure after them, however the stream is split into reads.
Buffers are bounded: a frame by `CHUNK_BYTES`, a message by `MESSAGE_BYTES_MAX`, both checked before the
bytes are kept.
"""

from __future__ import annotations

import struct
from io import BytesIO

from mirrormq.peers import peer_limits

HEAD = struct.Struct(">IB")

HEARTBEAT = 0
MESSAGE, URGENT, PACKED, MORE = 0x01, 0x02, 0x04, 0x08
_KINDS = frozenset({HEARTBEAT} | {MESSAGE | flags for flags in range(0x10) if not flags & MESSAGE})

HEARTBEAT_FRAME = HEAD.pack(0, HEARTBEAT)


def kind_of(*, urgent: bool, packed: bool, more: bool = False) -> int:
    """Return the kind of a message's frame."""
    return MESSAGE | (URGENT if urgent else 0) | (PACKED if packed else 0) | (MORE if more else 0)


class _Lane:
    """Incomplete long message of one lane. A BytesIO grows, and returns its content, without copying."""

    __slots__ = ("content", "packed")

    def __init__(self) -> None:
        self.content: BytesIO | None = None
        self.packed = False


class FrameReader:
    """Frame parser: bytes in, messages out. After a `failure` it returns no more messages.

    A socket reads directly into `space()` and reports the number of bytes with `filled()`. One buffer that
    stays in the cache, instead of a new object for each read, is worth a factor of two with large
    messages: the kernel has to provide fresh memory page by page.
    """

    def __init__(self, message_bytes_max: int = peer_limits.MESSAGE_BYTES_MAX) -> None:
        self.failure: str | None = None
        self._message_bytes_max = message_bytes_max
        self._buffer = bytearray(peer_limits.READ_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._lanes = (_Lane(), _Lane())

    def space(self) -> memoryview:
        """Return the free part of the buffer for the next read; never empty."""
        return self._view[self._filled :]

    def filled(self, count: int) -> list[tuple[bool, bytes]]:
        """Return the messages that `count` new bytes complete, each with whether it is msgpack."""
        messages: list[tuple[bool, bytes]] = []
        if self.failure is not None:
            return messages
        end = self._filled + count
        used = self._frames(end, messages)
        rest = end - used
        if used and rest:
            # Moved to the front, the incomplete frame leaves room: `space` is never empty.
            self._view[:rest] = self._view[used:end]
        self._filled = rest if self.failure is None else 0
        return messages

    def receive(self, data: bytes) -> list[tuple[bool, bytes]]:
        """Return the messages that `data` completes, for bytes that are not in the buffer yet."""
        messages: list[tuple[bool, bytes]] = []
        while data and self.failure is None:
            space = self.space()
            part, data = data[: len(space)], data[len(space) :]
            space[: len(part)] = part
            messages += self.filled(len(part))
        return messages

    def _frames(self, end: int, messages: list[tuple[bool, bytes]]) -> int:
        """Process all complete frames. Return the offset where they end."""
        offset = 0
        view, head_bytes, unpack = self._view, HEAD.size, HEAD.unpack_from
        length: int
        while end - offset >= head_bytes:
            length, kind = unpack(view, offset)
            if length > peer_limits.CHUNK_BYTES or kind not in _KINDS or (kind == HEARTBEAT and length):
                self.failure = f"no frame has kind {kind} and length {length}"
                return offset
            begin = offset + head_bytes
            if end - begin < length:
                return offset
            offset = begin + length
            if kind == HEARTBEAT:
                continue
            lane = self._lanes[1 if kind & URGENT else 0]
            if kind & MORE or lane.content is not None:
                if not self._chunk(lane, kind, view[begin:offset], messages):
                    return offset
            else:
                messages.append((kind & PACKED != 0, bytes(view[begin:offset])))
        return offset

    def _chunk(self, lane: _Lane, kind: int, chunk: memoryview, messages: list[tuple[bool, bytes]]) -> bool:
        """Add a chunk to a long message. Return False if the chunk is invalid."""
        packed = kind & PACKED != 0
        content = lane.content
        if content is None:
            content = lane.content = BytesIO()
            lane.packed = packed
        if packed != lane.packed:
            self.failure = "a message changed its encoding half-way"
        elif kind & MORE and len(chunk) < peer_limits.CHUNK_BYTES_MIN:
            self.failure = "a chunk that is too small"
        elif content.tell() + len(chunk) > self._message_bytes_max:
            self.failure = "a message that is too large"
        if self.failure is not None:
            return False
        content.write(chunk)
        if not kind & MORE:
            messages.append((packed, content.getvalue()))
            lane.content = None
        return True
