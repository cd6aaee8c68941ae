"""Large bodies from the shared read buffer: each content is copied once, to its final place.

While large bodies arrive, sockets read into one buffer that all clients share (`runtime/large_reads.py`).
`large_run` finds publishes of the simple format in it and copies their contents. The scanner processes
everything else and needs its own bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD_SIZE, HEADER, METHOD
from mirrormq.wire.runs import BASIC_CLASS, BASIC_PUBLISH, CONTENT_HEAD

LARGE_BYTES = 16 * 1024
"""Size from which one copy less of a body is measurable: 30 % less of the broker's time for a message of
64 KiB, 15 % at 32 KiB, 5 % here, nothing at 8 KiB."""

HEADS_BYTES_MAX = 1024
"""Maximum bytes before a body in the simple format: two names of 255 octets, properties without large
headers."""

_HEAD = Struct(">BHI").unpack_from
_LONG = Struct(">I").unpack_from
_LONG_LONG = Struct(">Q").unpack_from


class LargeRun(NamedTuple):
    """Consecutive publishes that differ only in their bodies, and the offset where the last one ends."""

    end: int
    channel: int
    publish: bytes
    properties: bytes
    contents: list[bytes]


def large_run(view: memoryview, at: int, most: int, limit: int) -> LargeRun | None:
    """Return the run of publishes that starts at `at`; None if the first is not a large, complete one of
    the simple format."""
    heads = bytes(view[at : at + HEADS_BYTES_MAX])
    offsets = _offsets(heads)
    if offsets is None:
        return None
    channel, header_at, body_at = offsets
    size_at = header_at + HEAD_SIZE + 4
    front, back = heads[:size_at], heads[size_at + 8 : body_at + 3]
    contents: list[bytes] = []
    while len(contents) < most:
        after = _end_of_one(view, at, front, back)
        # Too large a body is not refused here: the scanner's own path has the error.
        if after < 0 or after - at > limit + body_at + FRAME_OVERHEAD:
            break
        contents.append(bytes(view[at + header_at : after]))
        at = after
    if not contents:
        return None
    properties = heads[header_at + HEAD_SIZE + 12 : body_at - 1]
    return LargeRun(at, channel, heads[HEAD_SIZE : header_at - 1], properties, contents)


def begins_long(view: memoryview, at: int, header_at: int, whole_max: int) -> bool:
    """Return whether the method frame at `at` is a publish whose body is too large for one frame."""
    heads = bytes(view[at : at + HEADS_BYTES_MAX])
    header_at -= at
    if header_at + HEAD_SIZE + 14 > len(heads) or not heads.startswith(BASIC_PUBLISH, HEAD_SIZE):
        return False
    kind, channel, _, class_id, weight, body_size = CONTENT_HEAD(heads, header_at)
    return (kind, channel, class_id, weight) == (
        HEADER, int.from_bytes(heads[1:3], "big"), BASIC_CLASS, 0
    ) and body_size > whole_max  # fmt: skip


def _offsets(heads: bytes) -> tuple[int, int, int] | None:
    """Return channel, offset of the header frame and of the body frame, if a large publish begins like
    this."""
    if len(heads) < HEAD_SIZE or not heads.startswith(BASIC_PUBLISH, HEAD_SIZE):
        return None
    kind, channel, size = _HEAD(heads, 0)
    header_at = size + FRAME_OVERHEAD
    if kind != METHOD or header_at + HEAD_SIZE + 14 > len(heads) or heads[header_at - 1] != FRAME_END:
        return None
    kind, its_channel, header_size, class_id, weight, body_size = CONTENT_HEAD(heads, header_at)
    body_at = header_at + header_size + FRAME_OVERHEAD
    if (kind, its_channel, class_id, weight) != (HEADER, channel, BASIC_CLASS, 0) or header_size < 14:
        return None
    if body_size < LARGE_BYTES or body_at + HEAD_SIZE > len(heads) or heads[body_at - 1] != FRAME_END:
        return None
    return (channel, header_at, body_at) if _HEAD(heads, body_at)[:2] == (BODY, channel) else None


def _end_of_one(view: memoryview, at: int, front: bytes, back: bytes) -> int:
    """Return the offset after the publish at `at`; -1 if it differs from the first of its run or is
    incomplete."""
    body_size_at = len(front) + 8 + len(back)
    heads = bytes(view[at : at + body_size_at + 4])
    if len(heads) < body_size_at + 4 or not (heads.startswith(front) and heads.endswith(back, 0, -4)):
        return -1
    body_size: int = _LONG_LONG(heads, len(front))[0]
    after = at + body_size_at + 4 + body_size + 1
    # The simple format has exactly one body frame.
    if not body_size or body_size != _LONG(heads, body_size_at)[0]:
        return -1
    return after if after <= len(view) and view[after - 1] == FRAME_END else -1
