"""Header of a segment file, little-endian. Written twice, because losing the salt would lose the whole
file.

    format 2    magic "MMQJRNL" 7 B, format "2" u8, number u32, salt u32, checksum u8, zeros 3 B,
                generation u64, identity 16 B, zeros 16 B, CRC-32 of all this u32: 64 B a copy
    format 1    magic "MMQJRNL" 7 B, format "1" u8, number u32, salt u32, checksum u8, zeros 11 B,
                CRC-32 u32: 32 B a copy; written by release 0.1, read only
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import NamedTuple

from mirrormq.storage import journal_records

FORMAT = 2
"""Format that this version writes."""

IDENTITY_BYTES = 16
NO_IDENTITY = bytes(IDENTITY_BYTES)
"""Identity in a format 1 segment, which names no journal."""

_MAGIC = b"MMQJRNL2"
_HEAD = Struct("<8sIIB3xQ16s16x")
_COPY_BYTES = _HEAD.size + 4
DATA_AT = 2 * _COPY_BYTES
"""Offset of the first record in a format 2 segment."""


class SegmentHeader(NamedTuple):
    """Description of a segment by its own first bytes."""

    number: int
    checksum_name: int
    salt: int
    format: int = FORMAT
    identity: bytes = NO_IDENTITY
    generation: int = 0
    """Generation of the journal that created the segment; 0 in format 1."""

    @property
    def data_at(self) -> int:
        """Offset of the first record."""
        return DATA_AT if self.format == FORMAT else journal_records.DATA_AT

    def encode(self) -> bytes:
        """Return both copies, in format 2."""
        head = _HEAD.pack(_MAGIC, self.number, self.salt, self.checksum_name, self.generation, self.identity)
        return (head + zlib.crc32(head).to_bytes(4, "little")) * 2


def read_segment_header(data: bytes) -> SegmentHeader | None:
    """Read either copy. Return None if both are damaged or of an unknown format."""
    for at in (0, _COPY_BYTES):
        head = data[at : at + _HEAD.size]
        check = data[at + _HEAD.size : at + _COPY_BYTES]
        if len(check) == 4 and zlib.crc32(head).to_bytes(4, "little") == check:
            magic, number, salt, checksum_name, generation, identity = _HEAD.unpack(head)
            if magic == _MAGIC:
                return SegmentHeader(number, checksum_name, salt, FORMAT, identity, generation)
    first = journal_records.read_file_header(data)
    return None if first is None else SegmentHeader(*first, format=1)
