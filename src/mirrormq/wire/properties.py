"""Message properties: decoder and encoder of all fourteen, and fast scans of those that the broker acts upon.

`decode_properties` decodes everything. `scan_properties` is for the hot path. It walks the flags once, checks
that the lengths are consistent, and reads only what routing and storing need. It does not decode the headers.
A caller that accepts a message with headers must still validate them (`decode_table`), because RabbitMQ
refuses a message with malformed headers.

Malformed properties get RabbitMQ's reply, whose channel process crashes: 541 without an explanation. Flag bit
1 has no meaning and is accepted; bit 0 would announce a second word of flags, which no property uses, and is
refused.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mirrormq.errors import FrameSyntaxError, InternalError, PreconditionFailed
from mirrormq.wire.fields import Table, decode_table, encode_short_string, encode_table
from mirrormq.wire.header_walk import needs_decoding

TRANSIENT: Final = 1
PERSISTENT: Final = 2
"""Delivery modes; a message without a mode is transient."""

NO_HEADERS: Final = -1
"""Value of `headers_at` for a message without headers."""

Scan = tuple[bool, int, bytes | None, int, bytes | None]
"""Tuple of persistent, priority, expiration, headers_at, user_id."""

NOT_PLAIN: Final = -1
"""Result of `plain_traits` for a message whose properties must be decoded."""

DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"
"""Prefix of `reply_to` in requests for a direct reply."""

_CONTINUATION: Final = 0x0001
_NEVER_PLAIN: Final = 0x0100 | 0x0010 | _CONTINUATION
"""Flags of expiration, user id and a second word of flags."""
_FLAGS_AT: Final = 19
"""Octet of content frames at which the property flags start."""
_LENGTH: Final = struct.Struct(">I")
_TIMESTAMP: Final = struct.Struct(">Q")


class BasicProperties(NamedTuple):
    """Properties in the order of their flags; None if the flag is not set."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    """Seconds since the Unix epoch."""
    type_: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


PROPERTY_TYPES: Final[dict[str, str]] = {
    name: {"headers": "table", "delivery_mode": "octet", "priority": "octet", "timestamp": "timestamp"}.get(
        name, "shortstr"
    )
    for name in BasicProperties._fields
}
"""Name → wire type. The first name has flag bit 15, the next 14, and so on."""

_FLAGS: Final = tuple(
    (name, wire_type, 0x8000 >> index) for index, (name, wire_type) in enumerate(PROPERTY_TYPES.items())
)


def decode_properties(payload: bytes, offset: int) -> BasicProperties:
    """Decode the properties whose flags start at `offset`, up to the payload's end."""
    values: list[object] = []
    try:
        flags = payload[offset] << 8 | payload[offset + 1]
        at = offset + 2
        for _, wire_type, flag in _FLAGS:
            if flags & flag:
                value, at = _decode_value(payload, at, wire_type)
                values.append(value)
            else:
                values.append(None)
    except (IndexError, struct.error, FrameSyntaxError):
        raise InternalError from None
    if at != len(payload) or flags & _CONTINUATION:
        raise InternalError
    return BasicProperties._make(values)


def decode_headers(properties: bytes, headers_at: int) -> Table:
    """Decode the headers of properties whose scan said where they start."""
    try:
        return decode_table(properties, headers_at)[0]
    except FrameSyntaxError:
        raise InternalError from None


def _decode_value(payload: bytes, at: int, wire_type: str) -> tuple[object, int]:
    if wire_type == "shortstr":
        end = at + 1 + payload[at]
        return payload[at + 1 : end].decode("utf-8", "surrogateescape"), end
    if wire_type == "octet":
        return payload[at], at + 1
    if wire_type == "timestamp":
        return _TIMESTAMP.unpack_from(payload, at)[0], at + 8
    return decode_table(payload, at)


def encode_properties(properties: BasicProperties) -> bytes:
    """Encode the flags and the values."""
    flags = 0
    parts = []
    for value, (_, wire_type, flag) in zip(properties, _FLAGS, strict=True):
        if value is not None:
            flags |= flag
            parts.append(_encode_value(value, wire_type))
    return flags.to_bytes(2, "big") + b"".join(parts)


def _encode_value(value: str | int | Table, wire_type: str) -> bytes:
    if isinstance(value, str):
        return encode_short_string(value)
    if isinstance(value, dict):
        return encode_table(value)
    return value.to_bytes(1, "big") if wire_type == "octet" else _TIMESTAMP.pack(value)


def plain_traits(content: bytes) -> int:
    """Return priority times two, plus one if the message is persistent. Return NOT_PLAIN if other
    properties may concern the broker, or are malformed. Reads content frames and allocates nothing."""
    flags = content[_FLAGS_AT] << 8 | content[_FLAGS_AT + 1]
    if flags & _NEVER_PLAIN:
        return NOT_PLAIN
    at, mode, priority = _FLAGS_AT + 2, TRANSIENT, 0
    try:
        if flags & 0x8000:  # content_type
            at += 1 + content[at]
        if flags & 0x4000:  # content_encoding
            at += 1 + content[at]
        if flags & 0x2000:
            if needs_decoding(content, at):
                return NOT_PLAIN
            at += 4 + _LENGTH.unpack_from(content, at)[0]
        if flags & 0x1000:
            mode = content[at]
            at += 1
        if flags & 0x0800:
            priority = content[at]
            at += 1
        if flags & 0x0400:  # correlation_id
            at += 1 + content[at]
        if flags & 0x0200:
            if content.startswith(DIRECT_REPLY_TO, at + 1):
                return NOT_PLAIN
            at += 1 + content[at]
        if flags & 0x0080:  # message_id
            at += 1 + content[at]
        if flags & 0x0040:  # timestamp
            at += 8
        if flags & 0x002C:
            for flag in (0x0020, 0x0008, 0x0004):  # type, app_id, cluster_id
                if flags & flag:
                    at += 1 + content[at]
    except IndexError:
        return NOT_PLAIN
    if at != 7 + _LENGTH.unpack_from(content, 3)[0] or not TRANSIENT <= mode <= PERSISTENT:
        return NOT_PLAIN
    return priority << 1 | mode >> 1


def scan_properties(properties: bytes) -> Scan:
    """Return the properties that routing and storing need; unrolled because it runs for every message.

    Refuse a delivery mode that is not 1 or 2, with RabbitMQ's text.
    """
    mode, priority, expiration, headers_at, user_id = 1, 0, None, NO_HEADERS, None
    try:
        flags = properties[0] << 8 | properties[1]
        at = 2
        if flags & 0x8000:  # content_type
            at += 1 + properties[at]
        if flags & 0x4000:  # content_encoding
            at += 1 + properties[at]
        if flags & 0x2000:
            headers_at = at
            at += 4 + _LENGTH.unpack_from(properties, at)[0]
        if flags & 0x1000:
            mode = properties[at]
            at += 1
        if flags & 0x0800:
            priority = properties[at]
            at += 1
        if flags & 0x07FF:
            expiration, user_id, at = _scan_rest(properties, flags, at)
    except (IndexError, struct.error):
        raise InternalError from None
    if at != len(properties):
        raise InternalError
    if mode == 2:
        return True, priority, expiration, headers_at, user_id
    if mode != 1:
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{mode}}}")
    return False, priority, expiration, headers_at, user_id


def _scan_rest(properties: bytes, flags: int, at: int) -> tuple[bytes | None, bytes | None, int]:
    """Scan the properties after `priority`, which most publishers do not set."""
    expiration: bytes | None = None
    user_id: bytes | None = None
    if flags & 0x0400:  # correlation_id
        at += 1 + properties[at]
    if flags & 0x0200:  # reply_to
        at += 1 + properties[at]
    if flags & 0x0100:
        end = at + 1 + properties[at]
        expiration = properties[at + 1 : end]
        at = end
    if flags & 0x0080:  # message_id
        at += 1 + properties[at]
    if flags & 0x0040:  # timestamp
        at += 8
    if flags & 0x0020:  # type
        at += 1 + properties[at]
    if flags & 0x0010:
        end = at + 1 + properties[at]
        user_id = properties[at + 1 : end]
        at = end
    if flags & 0x0008:  # app_id
        at += 1 + properties[at]
    if flags & 0x0004:  # cluster_id
        at += 1 + properties[at]
    if flags & _CONTINUATION:
        raise InternalError
    return expiration, user_id, at
