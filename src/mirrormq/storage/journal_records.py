"""Record formats on disk, little-endian:

    length u32      of everything after the checksum
    checksum u32    of the same bytes, seeded with the file's salt
    kind u8
    payload

The salt makes a record valid in its own file only. A publisher can hide a well-formed record in a message
body, but recovery does not accept it when it searches after damage. Blocks that belonged to an older file
cannot be mistaken for this file's either. Kinds are values that text and zeros do not contain, so such a
search meets few false starts.

    MESSAGE     flags u8, delivery count u16 (0: not counted), publish length u16, queue u32, sequence u64,
                ingested at u64, expires at u64, basic.publish payload, content frames
                With the flag SHARED, instead of the content frames: offset u32, body bytes u32. The content
                is that of the record at the offset, in the same segment; that one is not SHARED.
    MESSAGE_1   flags u8, 1 as u16, publish length u16, queue u32, sequence u64, expires at u64,
                basic.publish payload, content frames; of format 1, read only
    ACK         queue u32, n × (first sequence u64, count u64)
    DELIVERED   queue u32, sequence u64: everything up to it was delivered at least once
    ERASED      queue u32: everything so far is deleted
    NEXT        queue u32, sequence u64: the lowest sequence not yet used
    WRITTEN     offset u32: end of one write. Bytes of this file below the offset were synced before it
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import Final, NamedTuple

from mirrormq.sequences.spans import Span

Checksum = Callable[[int, bytes], int]
"""Checksum function of a seed and bytes."""

_crc32c: Checksum | None
try:
    # A name of its own: the compiler must also accept this where the wheel is not installed.
    from google_crc32c import extend as _extend

    _crc32c = _extend
except ImportError:  # pragma: no cover - where the wheel is missing, new files use zlib's polynomial
    _crc32c = None

MESSAGE_1: Final = 0xE1
ACK: Final = 0xE2
DELIVERED: Final = 0xE3
ERASED: Final = 0xE4
NEXT: Final = 0xE5
ENTRY: Final = 0xE6
"""The only kind in an entry log."""
MESSAGE: Final = 0xE7
WRITTEN: Final = 0xE8
"""Reserved: E9 delivery counts, EA replicated logs."""
KINDS: frozenset[int] = frozenset(range(MESSAGE_1, WRITTEN + 1))
MESSAGES: frozenset[int] = frozenset((MESSAGE, MESSAGE_1))

DURABLE: Final = 1
"""Flag of a message that recovery keeps. Without it the record only pages memory out."""
SHARED: Final = 2
"""Flag of a message whose content is in another record of its segment."""

PREFIX = Struct("<II")
PREFIX_BYTES: Final = PREFIX.size
START = Struct("<IIB")
"""Prefix and kind."""
MESSAGE_HEAD = Struct("<BBHHIQQQ")
"""Fields that depend on the route only precede and follow sequence and ingestion time."""
MESSAGE_1_HEAD = Struct("<BBHHIQQ")
REFERENCE = Struct("<II")
"""Offset and body bytes of a content in another record."""
QUEUE_HEAD = Struct("<BI")
QUEUE_SEQUENCE: Final = Struct("<BIQ")
RANGE = Struct("<QQ")
_pack_ack_of_one: Final = Struct("<BIQQ").pack
WRITTEN_BODY = Struct("<BI")
WRITTEN_BYTES: Final = PREFIX_BYTES + WRITTEN_BODY.size
BODY_SIZE = Struct(">Q")
BODY_SIZE_AT = 11
"""Offset of the body's length in content frames: frame head (7), class (2), weight (2)."""

CRC32C, CRC32 = 1, 2
"""Checksum algorithm of a file; written in its header."""


def _crc32(seed: int, data: bytes) -> int:
    return zlib.crc32(data, seed)


def no_checksum(seed: int, data: bytes) -> int:
    """Placeholder for a checksum that this installation lacks. Matches nothing."""
    return -1


def checksum_named(name: int) -> Checksum | None:
    """Return the function for a header's checksum byte; None if this installation lacks it."""
    if name == CRC32C:
        return _crc32c
    return _crc32 if name == CRC32 else None


PREFERRED_CHECKSUM = CRC32C if _crc32c is not None else CRC32


def sealed(body: bytes, checksum: Checksum, salt: int) -> bytes:
    """Return the complete record of a body that starts with its kind."""
    return PREFIX.pack(len(body), checksum(salt, body)) + body


def acknowledgement_body(queue_id: int, spans: Sequence[Span]) -> bytes:
    """Return the body of an ACK of spans."""
    if len(spans) == 1:
        first, count = spans[0]
        return _pack_ack_of_one(ACK, queue_id, first, count)
    numbers = [number for span in spans for number in span]
    return pack("<BI" + "QQ" * len(spans), ACK, queue_id, *numbers)


class MessageHead(NamedTuple):
    """Fixed fields of a message record of either format."""

    flags: int
    deliveries: int
    publish_length: int
    queue_id: int
    sequence: int
    ingested_ms: int
    expires_at: int
    publish_at: int
    """Offset of the publish payload in the record's body."""

    @property
    def content_at(self) -> int:
        """Offset of the content, or of the reference to it."""
        return self.publish_at + self.publish_length


def message_head(body: bytes) -> MessageHead:
    """Read the head of a MESSAGE or MESSAGE_1."""
    if body[0] == MESSAGE:
        _, *fields = MESSAGE_HEAD.unpack_from(body)
        return MessageHead._make((*fields, MESSAGE_HEAD.size))
    _, flags, _, publish_length, queue_id, sequence, expires_at = MESSAGE_1_HEAD.unpack_from(body)
    return MessageHead(flags, 0, publish_length, queue_id, sequence, 0, expires_at, MESSAGE_1_HEAD.size)


def message_body(head: MessageHead, publish: bytes, content: bytes) -> bytes:
    """Build a MESSAGE with its own content."""
    flags = head.flags & ~SHARED
    fixed = MESSAGE_HEAD.pack(MESSAGE, flags, head.deliveries, len(publish), *head[3:7])
    return fixed + publish + content


def shared_body(head: MessageHead, publish: bytes, offset: int, body_bytes: int) -> bytes:
    """Build a MESSAGE whose content is that of the record at an offset of its segment."""
    flags = head.flags | SHARED
    fixed = MESSAGE_HEAD.pack(MESSAGE, flags, head.deliveries, len(publish), *head[3:7])
    return fixed + publish + REFERENCE.pack(offset, body_bytes)


HEADER = Struct("<8sIIBxxxQ")
HEADER_MAGIC = b"MMQJRNL1"
HEADER_BYTES = HEADER.size + 4
DATA_AT = 2 * HEADER_BYTES
"""Offset of the first record, after two copies of the header: losing the salt would lose the whole file."""


def file_header(number: int, checksum_name: int, salt: int) -> bytes:
    """Return both copies of a file's header."""
    head = HEADER.pack(HEADER_MAGIC, number, salt, checksum_name, 0)
    return (head + zlib.crc32(head).to_bytes(4, "little")) * 2


def read_file_header(data: bytes) -> tuple[int, int, int] | None:
    """Return (number, checksum name, salt) from either copy; None if both are damaged."""
    for at in (0, HEADER_BYTES):
        head = data[at : at + HEADER.size]
        check = data[at + HEADER.size : at + HEADER_BYTES]
        if len(check) == 4 and zlib.crc32(head).to_bytes(4, "little") == check:
            magic, number, salt, checksum_name, _ = HEADER.unpack(head)
            if magic == HEADER_MAGIC:
                return number, checksum_name, salt
    return None
