"""Content frames as one byte string: parsed, built, moved to another channel.

A message's `frames` are its header frame and body frames back to back (see queues/message.py):

    header  2 | channel 2 | size 4 | class 2 | weight 2 | body size 8 | flags and properties | 206
    body    3 | channel 2 | size 4 | a piece of the body | 206            (none if the body is empty)

The scanner has verified them, so these functions do not check for damage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

METHOD_FRAME: Final = 1
HEADER_FRAME: Final = 2
BODY_FRAME: Final = 3

FRAME_OVERHEAD_BYTES: Final = 8
"""Type, channel and size before the payload, the end octet after it."""

HEADER_PAYLOAD_AT: Final = 7
"""Offset of the header's payload in `frames`: after type, channel and size."""

PROPERTIES_AT: Final = HEADER_PAYLOAD_AT + 12
"""Offset of the property flags: after class, weight and body size."""

BASIC_CLASS: Final = 60

_FRAME_HEAD: Final = struct.Struct(">BHI")
_FRAME_END: Final = b"\xce"
_HEADER_HEAD: Final = struct.Struct(">BHIHHQ")
_HEADER_FIXED_BYTES: Final = 12
_SIZE: Final = struct.Struct(">I")


def method_frame(channel: int, payload: bytes) -> bytes:
    """Return a complete method frame."""
    return _FRAME_HEAD.pack(METHOD_FRAME, channel, len(payload)) + payload + _FRAME_END


def build_frames(channel: int, properties_payload: bytes, body: bytes | bytearray, frame_max: int) -> bytes:
    """Return the content frames of a new message; `frame_max` 0 means no limit."""
    header = _header_frame(channel, properties_payload, len(body))
    if frame_max and len(body) > frame_max - FRAME_OVERHEAD_BYTES:
        return _joined_frames(channel, header, split(body, frame_max))
    return header + _FRAME_HEAD.pack(BODY_FRAME, channel, len(body)) + body + _FRAME_END if body else header


def content_of_pieces(channel: int, properties_payload: bytes, pieces: Sequence[bytes | bytearray]) -> bytes:
    """Return the content frames of a new message with a body frame for each piece; copies the body once."""
    header = _header_frame(channel, properties_payload, sum([len(piece) for piece in pieces]))
    return _joined_frames(channel, header, pieces)


def split(body: bytes | bytearray, frame_max: int) -> list[memoryview]:
    """Return the pieces of a body for frames of at most `frame_max` bytes."""
    piece_max = frame_max - FRAME_OVERHEAD_BYTES
    view = memoryview(body)
    return [view[start : start + piece_max] for start in range(0, len(body), piece_max)]


def _header_frame(channel: int, properties_payload: bytes, body_size: int) -> bytes:
    size = _HEADER_FIXED_BYTES + len(properties_payload)
    head = _HEADER_HEAD.pack(HEADER_FRAME, channel, size, BASIC_CLASS, 0, body_size)
    return head + properties_payload + _FRAME_END


def _joined_frames(channel: int, header: bytes, pieces: Sequence[bytes | bytearray | memoryview]) -> bytes:
    """Return a header frame and a body frame for each piece, joined with one copy."""
    parts: list[bytes | bytearray | memoryview] = [header]
    for piece in pieces:
        parts += (_FRAME_HEAD.pack(BODY_FRAME, channel, len(piece)), piece, _FRAME_END)
    return b"".join(parts)


def header_size(frames: bytes) -> int:
    """Return the length of the whole header frame."""
    size: int = _SIZE.unpack_from(frames, 3)[0]
    return FRAME_OVERHEAD_BYTES + size


def properties_of(frames: bytes) -> bytes:
    """Return the raw header payload, beginning with the property flags."""
    return frames[PROPERTIES_AT : header_size(frames) - 1]


def body_of(frames: bytes) -> bytes:
    """Return the body in one piece."""
    offset = header_size(frames)
    end = len(frames)
    if offset == end:
        return b""
    size = _SIZE.unpack_from(frames, offset + 3)[0]
    if offset + FRAME_OVERHEAD_BYTES + size == end:
        return frames[offset + 7 : end - 1]
    pieces = []
    while offset < end:
        size = _SIZE.unpack_from(frames, offset + 3)[0]
        pieces.append(frames[offset + 7 : offset + 7 + size])
        offset += FRAME_OVERHEAD_BYTES + size
    return b"".join(pieces)


def with_properties(frames: bytes, properties_payload: bytes) -> bytes:
    """Return the message with other properties and an unchanged body."""
    channel = int.from_bytes(frames[1:3], "big")
    body_size = int.from_bytes(frames[11:19], "big")
    return _header_frame(channel, properties_payload, body_size) + frames[header_size(frames) :]


def rechannel(frames: bytes, channel: int) -> bytes:
    """Return the frames with another channel number."""
    wanted = channel.to_bytes(2, "big")
    if frames[1:3] == wanted:
        return frames
    body_at = FRAME_OVERHEAD_BYTES + _SIZE.unpack_from(frames, 3)[0]
    end = len(frames)
    if body_at == end:
        return b"\x02" + wanted + frames[3:]
    next_at = body_at + FRAME_OVERHEAD_BYTES + _SIZE.unpack_from(frames, body_at + 3)[0]
    # The usual case, one body frame, needs no byte-wise copy of the whole content.
    if next_at == end:
        return b"".join((b"\x02", wanted, frames[3 : body_at + 1], wanted, frames[body_at + 3 :]))
    changed = bytearray(frames)
    offset = 0
    while offset < end:
        changed[offset + 1 : offset + 3] = wanted
        offset += FRAME_OVERHEAD_BYTES + _SIZE.unpack_from(frames, offset + 3)[0]
    return bytes(changed)


def reframe(frames: bytes, channel: int, frame_max: int) -> bytes:
    """Return the message for a connection whose frames may be smaller. Pieces are split, never joined.

    The header frame cannot be split and is sent unchanged, as RabbitMQ does.
    """
    if frame_max == 0 or len(frames) <= frame_max:
        return rechannel(frames, channel)
    body_at = offset = header_size(frames)
    sizes = []
    while offset < len(frames):
        sizes.append(_SIZE.unpack_from(frames, offset + 3)[0])
        offset += FRAME_OVERHEAD_BYTES + sizes[-1]
    if not sizes or max(sizes) + FRAME_OVERHEAD_BYTES <= frame_max:
        return rechannel(frames, channel)
    pieces: list[memoryview] = []
    offset = body_at
    for size in sizes:
        pieces += split(frames[offset + 7 : offset + 7 + size], frame_max)
        offset += FRAME_OVERHEAD_BYTES + size
    return _joined_frames(channel, rechannel(frames[:body_at], channel), pieces)
