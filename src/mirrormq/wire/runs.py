"""Runs of publishes in a buffer: where one like the first begins again, without taking it apart.

Each function looks at a buffer in which a complete publish of the simple shape (method frame, header
frame, at most one body frame) has been found, and collects those that follow it.
"""

from __future__ import annotations

from struct import Struct

from mirrormq.wire.frames import FRAME_END, FRAME_OVERHEAD, HEAD_SIZE, HEADER

CONTENT_HEAD = Struct(">BHIHHQ").unpack_from
BASIC_CLASS = 60
BASIC_PUBLISH = b"\x00\x3c\x00\x28"
BASIC_ACK = b"\x00\x3c\x00\x50"
ACK_SIZE = 13
"""The payload of basic.ack: ids, delivery tag, `multiple`."""
_LONG = Struct(">I").unpack_from
_LONG_LONG = Struct(">Q").unpack_from

MIXED_HEADER_BYTES_MAX = 64 * 1024
"""Headers of one mixed run. Each is decoded (about 80 ns a byte), and no other client is served meanwhile."""


def single_acks(buffer: bytes, at: int, most: int) -> list[int]:
    """The delivery tags of the basic.ack frames of one channel from `at` on, up to one with `multiple`."""
    size = len(buffer)
    front = buffer[at : at + HEAD_SIZE + len(BASIC_ACK)]
    stride, tag_at = ACK_SIZE + FRAME_OVERHEAD, len(front)
    tags: list[int] = []
    while at + stride <= size and buffer.startswith(front, at) and len(tags) < most:
        if buffer[at + stride - 2] or buffer[at + stride - 1] != FRAME_END:
            break
        tags.append(_LONG_LONG(buffer, at + tag_at)[0])
        at += stride
    return tags


def may_be_simple(buffer: bytes, position: int, header_at: int, channel: int) -> bool:
    """Could a publish of which only the method has come be of the simple shape? If something is wrong
    already the client is told so at once."""
    exchange_at = position + HEAD_SIZE + 6
    key_at = exchange_at + 1 + buffer[exchange_at] if exchange_at < header_at else header_at
    if channel == 0 or key_at >= header_at or key_at + 1 + buffer[key_at] + 2 != header_at:
        return False
    if len(buffer) - header_at >= HEAD_SIZE and _LONG(buffer, header_at + 3)[0] < 14:
        return False
    return may_become(buffer, header_at, HEADER, channel)


def may_become(buffer: bytes, at: int, kind: int, channel: int) -> bool:
    """Could what has come of the frame at `at` be of this kind and channel?"""
    return (kind << 16 | channel).to_bytes(3, "big").startswith(buffer[at : at + 3])


def like_the_first(
    buffer: bytes,
    first_at: int,
    header_at: int,
    body_at: int,
    at: int,
    contents: list[bytes],
    most: int,
    limit: int,
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
            if not 0 < body_size <= limit or body_size != _LONG(buffer, at + body_size_at)[0]:
                break
            stride, prefix = head_size + body_size + 1, buffer[at : at + head_size]
        after = at + stride
        if after > size or buffer[after - 1] != FRAME_END:
            break
        append(buffer[at + content_at : after])
        at = after
    return at


def any_properties(
    buffer: bytes, first_at: int, header_at: int, at: int, contents: list[bytes], most: int, limit: int
) -> int:
    """Collect further messages with the method frame of the one at `first_at`, whatever their properties."""
    size = len(buffer)
    startswith, append = buffer.startswith, contents.append
    content_at = header_at - first_at
    front = buffer[first_at : header_at + 3]
    body_front = b"\x03" + front[-2:]
    header_bytes: int = _LONG(buffer, header_at + 3)[0]
    while len(contents) < most and startswith(front, at):
        head = at + content_at
        if head + HEAD_SIZE + 14 > size:
            break
        _, _, header_size, class_id, weight, body_size = CONTENT_HEAD(buffer, head)
        body_at = head + header_size + FRAME_OVERHEAD
        after: int = body_at + body_size + FRAME_OVERHEAD if body_size else body_at
        header_bytes += header_size
        if header_bytes > MIXED_HEADER_BYTES_MAX:
            break
        if class_id != BASIC_CLASS or weight or header_size < 14 or after > size:
            break
        if body_size > limit or buffer[body_at - 1] != FRAME_END or buffer[after - 1] != FRAME_END:
            break
        if body_size and not (startswith(body_front, body_at) and _LONG(buffer, body_at + 3)[0] == body_size):
            break
        append(buffer[head:after])
        at = after
    return at
