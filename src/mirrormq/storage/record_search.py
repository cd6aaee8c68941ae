"""Search for valid records in bytes that may be damaged."""

from __future__ import annotations

import re

from mirrormq.storage import journal_records
from mirrormq.storage.journal_limits import RESYNC_CHECKSUM_BYTES

KIND = re.compile(b"[" + re.escape(bytes(sorted(journal_records.KINDS))) + b"]")


def valid_body(checksum: journal_records.Checksum, salt: int, data: bytes, at: int) -> bytes | None:
    """Return the body of the record at an offset; None if there is no valid one."""
    if at + journal_records.START.size > len(data):
        return None
    length, check, kind = journal_records.START.unpack_from(data, at)
    body_at = at + journal_records.PREFIX_BYTES
    if length == 0 or kind not in journal_records.KINDS or body_at + length > len(data):
        return None
    body = data[body_at : body_at + length]
    return body if checksum(salt, body) == check else None


def find_record(checksum: journal_records.Checksum, salt: int, data: bytes, bad_at: int) -> int:
    """Return the offset of the first valid record after a damaged one; -1 if there is none."""
    if bad_at + journal_records.PREFIX_BYTES <= len(data):
        length = int(journal_records.PREFIX.unpack_from(data, bad_at)[0])
        next_at = bad_at + journal_records.PREFIX_BYTES + length
        if length and valid_body(checksum, salt, data, next_at) is not None:
            return next_at
    budget = RESYNC_CHECKSUM_BYTES
    for match in KIND.finditer(data, bad_at + journal_records.PREFIX_BYTES + 1):
        at = match.start() - journal_records.PREFIX_BYTES
        length = int(journal_records.PREFIX.unpack_from(data, at)[0])
        if length > budget or at + journal_records.PREFIX_BYTES + length > len(data):
            continue
        budget -= length
        if valid_body(checksum, salt, data, at) is not None:
            return at
    return -1


def zeros_from(data: bytes, at: int) -> bool:
    """Return whether nothing was ever written from an offset on."""
    return data.count(0, at) == len(data) - at


def written_end(data: bytes) -> int:
    """Return the offset after the last non-zero byte: approximately where the preallocated part begins."""
    return len(data.rstrip(b"\0"))
