"""Decoder and encoder of field tables; keeps the wire type of every value.

A table is a dict from name to `Field`; a field is the type letter of the wire and the value. The letters have
the meaning of RabbitMQ 3.10, which differs from the standard (there, `s` is a short string); `L` is read as
`l`. As in RabbitMQ, the first of two equal names is used.

A malformed table, or one that nests deeper than `NESTING_DEPTH_MAX`, raises `FrameSyntaxError`. RabbitMQ's
decoder crashes on such bytes and drops the connection without a reply; MirrorMQ replies with 502 first.
RabbitMQ's decoder also crashes on a double that is infinite or not a number, so those are refused as well.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mirrormq.errors import FrameSyntaxError

NESTING_DEPTH_MAX = 100
"""Maximum nesting of tables and arrays. Real headers (x-death in a trace) nest four deep. Each level
costs the decoder two Python frames, and the interpreter allows a thousand."""

SHORT_STRING_BYTES_MAX = 255
"""Maximum length of a short string: its length is one octet."""

TYPE_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "d": "double",
    "f": "float",
    "D": "decimal",
    "S": "longstr",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
    "x": "binary",
}
"""Type letter of the wire → name of the type in RabbitMQ's texts and APIs."""


class Field(NamedTuple):
    """Value with its wire type."""

    kind: str
    """Type letter: a key of TYPE_NAMES."""
    value: Any
    """Value: bool, int, float, ScaledDecimal, bytes (S and x), list[Field], int (T: seconds), Table, None."""


Table = dict[str, Field]


class ScaledDecimal(NamedTuple):
    """Decimal: `value` divided by ten to the power of `scale`; RabbitMQ reads both as unsigned."""

    scale: int
    value: int


VOID: Final = Field("V", None)

_LENGTH: Final = struct.Struct(">I")
_DECIMAL: Final = struct.Struct(">BI")
_NUMBERS: Final[dict[str, struct.Struct]] = {
    kind: struct.Struct(">" + layout)
    for kind, layout in {
        "b": "b",
        "B": "B",
        "s": "h",
        "u": "H",
        "I": "i",
        "i": "I",
        "l": "q",
        "d": "d",
        "f": "f",
        "T": "Q",
    }.items()
}
_NUMBERS_BY_OCTET: Final = {ord(kind): (kind, layout) for kind, layout in _NUMBERS.items()} | {
    ord("L"): ("l", _NUMBERS["l"])
}


# --- decoding ----------------------------------------------------------------------------------


def decode_table(data: bytes, offset: int) -> tuple[Table, int]:
    """Decode the table whose four length bytes start at `offset`; return it and the offset of its end."""
    try:
        at = offset + 4
        end = at + _LENGTH.unpack_from(data, offset)[0]
        if end > len(data):
            raise _malformed()
        return _decode_entries(data, at, end, 1), end
    except (IndexError, struct.error):
        raise _malformed() from None


def decode_entries(entries: bytes) -> Table:
    """Decode a table without its length, as the metadata stores tables."""
    return decode_table(len(entries).to_bytes(4, "big") + entries, 0)[0]


def _malformed() -> FrameSyntaxError:
    return FrameSyntaxError("malformed field table")


def _decode_entries(data: bytes, at: int, end: int, depth: int) -> Table:
    table: Table = {}
    while at < end:
        key_end = at + 1 + data[at]
        key = data[at + 1 : key_end].decode("utf-8", "surrogateescape")
        value, at = _decode_field(data, key_end, end, depth)
        table.setdefault(key, value)
    if at != end:
        raise _malformed()
    return table


def _decode_array(data: bytes, at: int, end: int, depth: int) -> list[Field]:
    fields: list[Field] = []
    while at < end:
        value, at = _decode_field(data, at, end, depth)
        fields.append(value)
    if at != end:
        raise _malformed()
    return fields


def _decode_field(data: bytes, at: int, end: int, depth: int) -> tuple[Field, int]:
    """Decode one field with its type letter at `at`. The calling loop detects fields that run past `end`."""
    octet = data[at]
    at += 1
    if octet == 0x53 or octet == 0x78:  # S, x
        value_at = at + 4
        at = value_at + _LENGTH.unpack_from(data, at)[0]
        return Field("S" if octet == 0x53 else "x", data[value_at:at]), at
    number = _NUMBERS_BY_OCTET.get(octet)
    if number is not None:
        kind, layout = number
        value = layout.unpack_from(data, at)[0]
        if octet in b"df" and not math.isfinite(value):
            raise FrameSyntaxError("a field's floating point number is not finite")
        return Field(kind, value), at + layout.size
    if octet == 0x74:  # t
        return Field("t", data[at] != 0), at + 1
    if octet == 0x56:  # V
        return VOID, at
    if octet == 0x44:  # D
        return Field("D", ScaledDecimal(*_DECIMAL.unpack_from(data, at))), at + 5
    if octet == 0x46 or octet == 0x41:  # F, A
        return _decode_nested(data, at, end, depth, octet == 0x46)
    raise FrameSyntaxError(f"unknown field type {octet}")


def _decode_nested(data: bytes, at: int, end: int, depth: int, is_table: bool) -> tuple[Field, int]:
    if depth >= NESTING_DEPTH_MAX:
        raise FrameSyntaxError(f"field tables nest deeper than {NESTING_DEPTH_MAX}")
    value_at = at + 4
    value_end = value_at + _LENGTH.unpack_from(data, at)[0]
    if value_end > end:
        raise _malformed()
    if is_table:
        return Field("F", _decode_entries(data, value_at, value_end, depth + 1)), value_end
    return Field("A", _decode_array(data, value_at, value_end, depth + 1)), value_end


# --- encoding ----------------------------------------------------------------------------------


def encode_table(table: Table) -> bytes:
    """Encode a table with its four length bytes."""
    parts = []
    for key, field_ in table.items():
        parts.append(encode_short_string(key))
        parts.append(_encode_field(field_))
    return encode_long_string(b"".join(parts))


def encode_short_string(text: str) -> bytes:
    """Encode a short string with its length octet; raise ValueError if it is longer than 255 bytes."""
    encoded = text.encode("utf-8", "surrogateescape")
    if len(encoded) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"a short string holds {SHORT_STRING_BYTES_MAX} bytes, not {len(encoded)}")
    return bytes((len(encoded),)) + encoded


def encode_long_string(data: bytes) -> bytes:
    """Encode a long string with its four length octets."""
    return _LENGTH.pack(len(data)) + data


def _encode_field(field_: Field) -> bytes:
    kind, value = field_
    return kind.encode() + _ENCODERS[kind](value)


def _encode_array(fields: list[Field]) -> bytes:
    return encode_long_string(b"".join(map(_encode_field, fields)))


_ENCODERS: Final[dict[str, Callable[[Any], bytes]]] = {
    **{kind: layout.pack for kind, layout in _NUMBERS.items()},
    "t": lambda value: b"\1" if value else b"\0",
    "D": lambda value: _DECIMAL.pack(*value),
    "S": encode_long_string,
    "x": encode_long_string,
    "A": _encode_array,
    "F": encode_table,
    "V": lambda _: b"",
}


# --- native values -----------------------------------------------------------------------------


def plain(table: Table) -> dict[str, object]:
    """Convert a table to native Python values; a timestamp stays a number of seconds."""
    return {key: plain_value(field_) for key, field_ in table.items()}


def plain_value(field_: Field) -> object:
    """Convert one field to a native Python value."""
    kind, value = field_
    if kind == "S" and isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return plain(value)
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if isinstance(value, ScaledDecimal):
        return decimal.Decimal((0, tuple(map(int, str(value.value))), -value.scale))
    return value


def field(value: object) -> Field:
    """Convert a native Python value to a field, with the type that RabbitMQ's own clients choose."""
    match value:
        case Field():
            return value
        case None:
            return VOID
        case bool():
            return Field("t", value)
        case int():
            return _integer_field(value)
        case float():
            return Field("d", value)
        case str():
            return Field("S", value.encode("utf-8", "surrogateescape"))
        case bytes():
            return Field("S", value)
        case dict():
            return Field("F", table_of(value))
        case ScaledDecimal():
            return Field("D", value)
        case list() | tuple():
            return Field("A", [field(item) for item in value])
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return Field("T", int(aware.timestamp()))
    raise TypeError(f"a {type(value).__name__} has no field type")


def table_of(values: Mapping[str, object]) -> Table:
    """Convert a mapping of native Python values to a table."""
    return {key: field(value) for key, value in values.items()}


def _integer_field(value: int) -> Field:
    if -(1 << 31) <= value < 1 << 31:
        return Field("I", value)
    if -(1 << 63) <= value < 1 << 63:
        return Field("l", value)
    raise ValueError(f"{value} does not fit a field of 64 bits")
