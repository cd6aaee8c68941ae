"""Values in Erlang's notation, as RabbitMQ's texts quote them: <<"text">>, [1,2], #{<<"a">> => 1}."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LINE_WIDTH = 80
"""Column at which Erlang's ~p starts a new line."""

_PRINTABLE = frozenset(range(32, 127)) | frozenset(range(160, 256)) | frozenset(b"\t\n\r\v\b\f\x1b")
"""Octets that Erlang treats as Latin-1 text. A binary with any other octet is shown as numbers."""

_ESCAPES = {
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord("\r"): "\\r",
    ord("\v"): "\\v",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    0x1B: "\\e",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


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
            return _float(value)
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
    if not _PRINTABLE.issuperset(raw):
        return "<<" + ",".join(map(str, raw)) + ">>"
    return f"<<{_quoted(raw)}>>"


def _quoted(octets: Iterable[int]) -> str:
    """Quote octets as Erlang does, and decode the result as UTF-8, which clients expect."""
    text = '"' + "".join(_ESCAPES.get(octet, chr(octet)) for octet in octets) + '"'
    return text.encode("latin-1").decode("utf-8", "replace")


def _is_printable_octet(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and item in _PRINTABLE


def _float(value: float) -> str:
    mantissa, exponent, power = repr(value).partition("e")
    if not exponent:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(power)}"
