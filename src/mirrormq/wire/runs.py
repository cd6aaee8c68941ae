"""Runs of publishes in a buffer, collected by slicing alone.

Each function gets a buffer in which a complete publish of the simple shape (method frame, header frame, at
most one body frame) was found. It collects the publishes after it: messages that differ in their bodies alone
(`like_the_first`), or in anything (`unlike`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from mirrormq.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEAD_SIZE, HEADER, METHOD

CONTENT_HEAD: Final[Callable[[bytes, int], tuple[int, int, int, int, int, int]]] = Struct(
    ">BHIHHQ"
).unpack_from
BASIC_CLASS: Final = 60
CLASS_AND_WEIGHT: Final = b"\x00\x3c\x00\x00"
BASIC_PUBLISH: Final = b"\x00\x3c\x00\x28"
BASIC_ACK: Final = b"\x00\x3c\x00\x50"
ACK_SIZE: Final = 13
"""Payload size of basic.ack: ids, delivery tag, `multiple`."""
_HEAD = Struct(">BHI").unpack_from
_METHOD: Callable[[bytes, int], tuple[int, int, int, int]] = Struct(">BHII").unpack_from
_METHOD_BYTES: Final = 11
"""Size of a method frame's head with class and method id."""
_PUBLISH_ID: Final = 60 << 16 | 40
_CONTENT: Callable[[bytes, int], tuple[int, int, int, int, int]] = Struct(">BHIIQ").unpack_from
"""Head of a header frame, class and weight, body size."""
_CLASS_AND_WEIGHT: Final = 60 << 16

MIXED_HEADER_BYTES_MAX = 64 * 1024
"""Maximum header bytes of one mixed run. Each header may have to be decoded (about 80 ns per byte), and
no other client is served meanwhile."""

PAYLOAD_BYTES_MAX: Final = 1024
"""Maximum payload of basic.publish: ids and two names of 255 octets."""

ALIKE_MIN: Final = 4
"""Minimum number of messages of a run that differ in their bodies alone. The set-up of such a run costs
as much as handling three or four messages one by one."""


def u32(data: bytes, at: int) -> int:
    """Return a four-octet number. Compiled code reads octets much faster than it calls a Struct."""
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def u64(data: bytes, at: int) -> int:
    """Return an eight-octet number."""
    return u32(data, at) << 32 | u32(data, at + 4)


def single_acks(buffer: bytes, at: int, most: int) -> list[int]:
    """Return the delivery tags of consecutive basic.ack frames of one channel from `at` on, up to one
    with `multiple`."""
    size = len(buffer)
    tag_at = HEAD_SIZE + len(BASIC_ACK)
    front = buffer[at : at + tag_at]
    stride = ACK_SIZE + FRAME_OVERHEAD
    tags: list[int] = []
    while at + stride <= size and buffer[at : at + tag_at] == front and len(tags) < most:
        if buffer[at + stride - 2] or buffer[at + stride - 1] != FRAME_END:
            break
        tags.append(u64(buffer, at + tag_at))
        at += stride
    return tags


def may_be_simple(buffer: bytes, position: int, header_at: int, channel: int) -> bool:
    """Return whether a publish of which only the method has arrived may be of the simple shape. False
    if it is malformed already: the client gets the error at once."""
    exchange_at = position + HEAD_SIZE + 6
    key_at = exchange_at + 1 + buffer[exchange_at] if exchange_at < header_at else header_at
    if channel == 0 or key_at >= header_at or key_at + 1 + buffer[key_at] + 2 != header_at:
        return False
    if len(buffer) - header_at >= HEAD_SIZE and u32(buffer, header_at + 3) < 14:
        return False
    return may_become(buffer, header_at, HEADER, channel)


def may_become(buffer: bytes, at: int, kind: int, channel: int) -> bool:
    """Return whether the incomplete frame at `at` may be of this kind and channel."""
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
    """Collect further messages like the one at `first_at`, which ends at `at`; return the offset of their
    end.

    Messages of the same size start with the same octets (`prefix`). Messages of another size differ in the
    two places that contain it: the octets before (`front`) and between (`back`) are the same.
    """
    size = len(buffer)
    size_at = header_at - first_at + HEAD_SIZE + 4
    front, back = buffer[first_at : first_at + size_at], buffer[first_at + size_at + 8 : body_at + 3]
    back_at, body_size_at = size_at + 8, body_at - first_at + 3
    content_at, head_size = header_at - first_at, body_at - first_at + HEAD_SIZE
    stride, prefix = at - first_at, buffer[first_at : body_at + HEAD_SIZE]
    while len(contents) < most:
        if buffer[at : at + head_size] != prefix:
            if at + head_size > size or buffer[at : at + size_at] != front:
                break
            if buffer[at + back_at : at + body_size_at] != back:
                break
            body_size = u32(buffer, at + body_size_at)
            if not 0 < body_size <= limit or u64(buffer, at + size_at) != body_size:
                break
            stride, prefix = head_size + body_size + 1, buffer[at : at + head_size]
        after = at + stride
        if after > size or buffer[after - 1] != FRAME_END:
            break
        contents.append(buffer[at + content_at : after])
        at = after
    return at


def starts_alike(buffer: bytes, first_at: int, header_at: int, body_at: int, at: int) -> bool:
    """Return whether the message at `at` has the method frame and the properties of the one at `first_at`."""
    size_at = header_at + HEAD_SIZE + 4
    if not buffer.startswith(buffer[first_at:size_at], at):
        return False
    return buffer.startswith(buffer[size_at + 8 : body_at + 3], at + size_at + 8 - first_at)


def unlike(
    buffer: bytes, at: int, channel: int, publishes: list[bytes], contents: list[bytes], most: int, limit: int
) -> tuple[int, int]:
    """Collect further publishes of a channel with any payloads and properties, up to one of another
    shape or the first of several alike. Return the offset of their end, and the octets of their
    headers."""
    size = len(buffer)
    header_bytes = alike = 0
    alike_at, last_publish, last_properties = at, publishes[-1], b""
    while len(contents) < most and header_bytes <= MIXED_HEADER_BYTES_MAX and at + _METHOD_BYTES <= size:
        kind, its_channel, payload_size, method_id = _METHOD(buffer, at)
        if kind != METHOD or its_channel != channel or method_id != _PUBLISH_ID:
            break
        header_at = at + FRAME_OVERHEAD + payload_size
        if payload_size > PAYLOAD_BYTES_MAX or header_at + HEAD_SIZE + 14 > size:
            break
        kind, its_channel, header_size, class_and_weight, body_size = _CONTENT(buffer, header_at)
        if kind != HEADER or its_channel != channel or class_and_weight != _CLASS_AND_WEIGHT:
            break
        body_at = header_at + FRAME_OVERHEAD + header_size
        after = body_at + body_size + FRAME_OVERHEAD if body_size else body_at
        if header_size < 14 or header_size > limit or body_size > limit or after > size:
            break
        if not buffer[header_at - 1] == buffer[body_at - 1] == buffer[after - 1] == FRAME_END:
            break
        if body_size and _HEAD(buffer, body_at) != (BODY, channel, body_size):
            break
        publish, properties = buffer[at + HEAD_SIZE : header_at - 1], b""
        if body_size and publish == last_publish:
            properties = buffer[header_at + HEAD_SIZE + 12 : body_at - 1]
        if properties != last_properties or not properties:
            alike_at, alike = at, 0
        alike += 1
        if alike == ALIKE_MIN:
            # Give the messages before this one back: the scanner passes all of them as one run of equal ones.
            del publishes[1 - ALIKE_MIN :], contents[1 - ALIKE_MIN :]
            return alike_at, header_bytes - header_size * (ALIKE_MIN - 1)
        last_publish, last_properties = publish, properties
        publishes.append(publish)
        contents.append(buffer[header_at:after])
        header_bytes += header_size
        at = after
    return at, header_bytes
