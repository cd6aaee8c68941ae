"""Text form of header values that keeps their types, for the column `headers_typed`.

A value is a pair: the name of its AMQP type as RabbitMQ writes it, and a text.

    longstr          the text itself
    longstr_base64   base64 of a string that is not UTF-8
    binary           base64
    bool             true or false
    decimal          1234e-2
    void             no text (null)
    table, array     JSON of pairs: {"n": ["long", "5"]}, [["long", "5"]]
    others           the number; a timestamp in seconds
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import Any, Final

from mirrormq.wire.fields import TYPE_NAMES, VOID, Field, ScaledDecimal

BASE64_STRING: Final = "longstr_base64"
LETTERS: Final = {name: letter for letter, name in TYPE_NAMES.items()}
LIMITS: Final = {"b": 8, "B": 8, "s": 16, "u": 16, "I": 32, "i": 32, "l": 64, "T": 64}
UNSIGNED: Final = "BuiT"
SCALE_MAX, DECIMAL_MAX = 255, (1 << 32) - 1

TypedValue = tuple[str, str | None]


def typed_value(field: Field) -> TypedValue:
    """Return a header's value as the name of its type and a text."""
    kind, value = field
    name = TYPE_NAMES[kind]
    if kind == "S":
        try:
            return name, value.decode()
        except UnicodeDecodeError:
            return BASE64_STRING, base64.b64encode(value).decode()
    if kind == "x":
        return name, base64.b64encode(value).decode()
    if kind == "t":
        return name, "true" if value else "false"
    if kind == "D":
        return name, f"{value.value}e-{value.scale}"
    if kind == "V":
        return name, None
    if kind == "F":
        pairs = {_valid(key): typed_value(each) for key, each in value.items()}
        return name, json.dumps(pairs, ensure_ascii=False)
    if kind == "A":
        return name, json.dumps([typed_value(each) for each in value], ensure_ascii=False)
    return name, repr(value)


def _valid(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def field_of(name: str | None, text: str | None) -> Field:
    """Return the header's value for a pair of `typed_value`. Raises ValueError with a sentence."""
    try:
        return _field(name, text)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise ValueError(f"a header of type {name!r} has the value {text!r}, which is none") from None


def _field(name: str | None, text: Any) -> Field:
    if name == BASE64_STRING:
        return Field("S", base64.b64decode(text, validate=True))
    kind = LETTERS.get(name or "")
    if kind is None:
        raise ValueError(name)
    if kind == "V":
        return VOID
    if kind == "S":
        return Field(kind, text.encode())
    if kind == "x":
        return Field(kind, base64.b64decode(text, validate=True))
    if kind == "t":
        return Field(kind, {"true": True, "false": False}[_one_of(text, "true", "false")])
    if kind == "D":
        number, scale = text.split("e-")
        return Field(kind, ScaledDecimal(_within(scale, 0, SCALE_MAX), _within(number, 0, DECIMAL_MAX)))
    if kind == "F":
        return Field(kind, {key: _field(*pair) for key, pair in json.loads(text).items()})
    if kind == "A":
        return Field(kind, [_field(*pair) for pair in json.loads(text)])
    if kind in "df":
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(text)
        return Field(kind, value)
    bits = LIMITS[kind]
    least, most = (0, (1 << bits) - 1) if kind in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return Field(kind, _within(text, least, most))


def _one_of(text: str, *allowed: str) -> str:
    if text not in allowed:
        raise ValueError(text)
    return text


def _within(text: str, least: int, most: int) -> int:
    value = int(text)
    if not least <= value <= most:
        raise ValueError(text)
    return value
