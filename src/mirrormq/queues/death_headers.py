"""Headers of a first dead-lettering, appended to the raw properties of a message.

Most dead letters have never been dead-lettered before and have no CC or BCC header. Their new headers depend
on queue, reason and address only, and go behind the headers that the message has. So the entries are encoded
once and spliced into the bytes; `dead_letters` decodes the other messages.
"""

from __future__ import annotations

from functools import lru_cache

from mirrormq.wire.fields import Field, Table, encode_table

CACHED_ENTRIES_MAX = 1024
"""Encoded entries to keep, some 300 bytes each: one per queue, reason, address, expiration and second."""

_HEADERS, _EXPIRATION = 0x2000, 0x0100
_MORE_FLAGS = 0x0001
_DECODED = (b"CC", b"x-death", b"x-first-death")
"""Names in headers that routing or the new headers depend on: such a message is decoded."""


def text_field(value: str) -> Field:
    return Field("S", value.encode("utf-8", "surrogateescape"))


def new_death(
    queue: str, reason: str, exchange: str, keys: tuple[str, ...], time_s: int, expiration: str | None
) -> Table:
    """Return the entry of `x-death` for a message that leaves `queue` for the first time."""
    death: Table = {
        "count": Field("l", 1),
        "reason": text_field(reason),
        "queue": text_field(queue),
        "time": Field("T", time_s),
        "exchange": text_field(exchange),
        "routing-keys": Field("A", [text_field(key) for key in keys]),
    }
    if expiration is not None:
        death["original-expiration"] = text_field(expiration)
    return death


def first_death(exchange: str, queue: str, reason: str) -> Table:
    """Return the headers that only the first dead-lettering sets."""
    return {
        "x-first-death-exchange": text_field(exchange),
        "x-first-death-queue": text_field(queue),
        "x-first-death-reason": text_field(reason),
    }


@lru_cache(CACHED_ENTRIES_MAX)
def _entries(
    queue: str, reason: str, exchange: str, key: str, time_s: int, expiration: bytes | None
) -> bytes:
    """Return the encoded headers of a first dead-lettering, without the length of a table."""
    text = None if expiration is None else expiration.decode("utf-8", "surrogateescape")
    death = new_death(queue, reason, exchange, (key,), time_s, text)
    headers = {"x-death": Field("A", [Field("F", death)]), **first_death(exchange, queue, reason)}
    return encode_table(headers)[4:]


def with_first_death(
    properties: bytes, queue: str, reason: str, exchange: str, key: str, time_s: int
) -> bytes | None:
    """Return the properties of a dead letter without its expiration; None if the message must be decoded."""
    flags = properties[0] << 8 | properties[1]
    if flags & _MORE_FLAGS:
        return None
    at, headers = 2, b""
    for flag in (0x8000, 0x4000):  # content_type, content_encoding
        if flags & flag:
            at += 1 + properties[at]
    headers_at = at
    if flags & _HEADERS:
        at += 4 + int.from_bytes(properties[at : at + 4], "big")
        headers = properties[headers_at + 4 : at]
        if any(name in headers for name in _DECODED):
            return None
    rest_at, expiration = at, None
    if flags & _EXPIRATION:
        at += (flags >> 12 & 1) + (flags >> 11 & 1)  # delivery_mode, priority
        for flag in (0x0400, 0x0200):  # correlation_id, reply_to
            if flags & flag:
                at += 1 + properties[at]
        expiration_at, at = at, at + 1 + properties[at]
        expiration = properties[expiration_at + 1 : at]
        rest = properties[rest_at:expiration_at] + properties[at:]
    else:
        rest = properties[rest_at:]
    headers += _entries(queue, reason, exchange, key, time_s, expiration)
    return b"".join(
        (
            ((flags | _HEADERS) & ~_EXPIRATION).to_bytes(2, "big"),
            properties[2:headers_at],
            len(headers).to_bytes(4, "big"),
            headers,
            rest,
        )
    )
