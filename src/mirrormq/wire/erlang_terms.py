"""Erlang notation of values, as RabbitMQ's texts quote them: AMQP fields, and JSON values of parameters.

Where a text quotes a value, RabbitMQ prints the Erlang term that the value was decoded to: `<<"text">>`,
`[1,2]`, `#{<<"a">> => 1}`. Of its line breaks only those of `properties` are reproduced.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from mirrormq.wire.fields import TYPE_NAMES, Field, ScaledDecimal

ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}

PRINTABLE = frozenset(range(32, 127)) | frozenset(range(160, 256)) | frozenset(ESCAPES)
"""Octets that Erlang treats as Latin-1 text. A binary with any other octet is shown as numbers."""

LINE_WIDTH = 80
"""Column at which Erlang's ~p starts a new line."""

FLOAT_INTEGER_MAX = 2**53
"""Bound above which not every integer is a float, and Erlang writes an exponent."""


def type_name(field: Field) -> str:
    """Return the type as an error text names it."""
    return TYPE_NAMES[field.kind]


def binary_text(value: bytes) -> str:
    """Return a binary as text: quoted if every byte is printable Latin-1, otherwise its bytes as numbers."""
    if not value:
        return "<<>>"
    if PRINTABLE.issuperset(value):
        quoted = b"".join(ESCAPES[byte].encode() if byte in ESCAPES else bytes((byte,)) for byte in value)
        return f'<<"{quoted.decode("utf-8", "surrogateescape")}">>'
    return f"<<{','.join(map(str, value))}>>"


def value_text(field: Field) -> str:
    """Return a field's value as text, without its type."""
    match field.value:
        case bytes() as binary:
            return binary_text(binary)
        case bool() as flag:
            return "true" if flag else "false"
        case None:
            return "undefined"
        case ScaledDecimal(scale, digits):
            return f"{{{scale},{digits}}}"
        case list() as items:
            return f"[{','.join(f'{{{type_name(item)},{value_text(item)}}}' for item in items)}]"
        case dict() as table:
            return f"[{','.join(_entry_text(name, item) for name, item in table.items())}]"
        case float() as number:
            return float_text(number)
        case number:
            return str(number)


def float_text(number: float) -> str:
    """Return the shortest digits that denote this number, with an exponent where that is shorter."""
    sign, digit_tuple, shift = Decimal(repr(number)).normalize().as_tuple()
    if not number or not isinstance(shift, int):
        return repr(number)
    minus = "-" if sign else ""
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + shift  # where the decimal point goes, counted from the first digit
    exponent = f"e{point - 1}"
    room = len(exponent) + (2 if len(digits) == 1 else 1)
    if 0 < point < len(digits):
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if point <= 0 and 2 - point <= room:
        return f"{minus}0.{'0' * -point}{digits}"
    if point > 0 and point - len(digits) + 2 <= room and abs(number) < FLOAT_INTEGER_MAX:
        return f"{minus}{digits}{'0' * (point - len(digits))}.0"
    return f"{minus}{digits[0]}.{digits[1:] or '0'}{exponent}"


def _entry_text(name: str, field: Field) -> str:
    shown = binary_text(name.encode("utf-8", "surrogateescape"))
    return f"{{{shown},{type_name(field)},{value_text(field)}}}"


def comparable(field: Field) -> object:
    """Return a value that equals another iff RabbitMQ's `==` holds for the two fields.

    The wire type does not matter at the top level: 1 equals 1.0 and the timestamp 1, a string equals a byte
    array. Booleans and void are atoms and equal no number. Inside arrays and tables the types and the order
    matter; an empty array equals an empty table.
    """
    # Strings and integers first: most headers are one of them, and `match` tries its cases in order.
    if type(field.value) is bytes or type(field.value) is int:
        return field.value
    match field.value:
        case bool() as flag:
            return ("bool", flag)
        case None:
            return ("void",)
        case ScaledDecimal(scale, digits):
            return ("decimal", scale, digits)
        case list() as items:
            return ("list", *((item.kind, comparable(item)) for item in items))
        case dict() as table:
            return ("list", *((name, item.kind, comparable(item)) for name, item in table.items()))
        case value:
            return value


# -- JSON values ----------------------------------------------------------------------------------


def term(value: Any) -> str:
    """Format a JSON value (or octets) as Erlang's ~p prints it on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _json_float_text(value)
        case str():
            return _binary(value.encode("utf-8", "surrogateescape"))
        case bytes():
            return _binary(value)
        case list() if value and all(_is_printable_octet(item) for item in value):
            return _quoted(value)
        case list():
            return "[" + ",".join(map(term, value)) + "]"
        case dict():
            return "#{" + ",".join(f"{term(key)} => {term(value[key])}" for key in sorted(value)) + "}"
    return repr(value)


def properties(settings: dict[str, Any]) -> str:
    """Format a dictionary as Erlang's list of pairs, with a line break after each pair if it exceeds one
    line."""
    pairs = [f"{{{term(key)},{term(settings[key])}}}" for key in sorted(settings)]
    line = "[" + ",".join(pairs) + "]"
    return line if len(line) <= LINE_WIDTH else "[" + ",\n ".join(pairs) + "]"


def _binary(raw: bytes) -> str:
    if not raw:
        return "<<>>"
    if not PRINTABLE.issuperset(raw):
        return "<<" + ",".join(map(str, raw)) + ">>"
    return f"<<{_quoted(raw)}>>"


def _quoted(octets: Iterable[int]) -> str:
    """Quote octets as Erlang does, and decode the result as UTF-8, which clients expect."""
    text = '"' + "".join(ESCAPES.get(octet, chr(octet)) for octet in octets) + '"'
    return text.encode("latin-1").decode("utf-8", "replace")


def _is_printable_octet(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and item in PRINTABLE


def _json_float_text(value: float) -> str:
    mantissa, exponent, power = repr(value).partition("e")
    if not exponent:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(power)}"
