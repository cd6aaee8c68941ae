"""Values in Erlang's notation, as RabbitMQ's texts quote them: <<"text">>, [1,2], #{<<"a">> => 1}."""

from __future__ import annotations

from typing import Any

_PRINTABLE = frozenset(range(32, 127)) | frozenset(range(160, 256)) | frozenset(b"\t\n\r\v\b\f\x1b")
"""Octets that Erlang takes for Latin-1 text; a binary with any other is shown as numbers."""

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
    """A JSON value (or octets) the way Erlang's ~p prints it on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _binary(value.encode("utf-8", "surrogateescape"))
        case bytes():
            return _binary(value)
        case list() | tuple():
            return "[" + ",".join(map(term, value)) + "]"
        case dict():
            return "#{" + ",".join(f"{term(key)} => {term(value[key])}" for key in sorted(value)) + "}"
    return repr(value)


def properties(settings: dict[str, Any]) -> str:
    """A dictionary as Erlang's list of pairs."""
    return "[" + ",".join(f"{{{term(key)},{term(settings[key])}}}" for key in sorted(settings)) + "]"


def _binary(raw: bytes) -> str:
    if not raw:
        return "<<>>"
    if not _PRINTABLE.issuperset(raw):
        return "<<" + ",".join(map(str, raw)) + ">>"
    return '<<"' + "".join(_ESCAPES.get(octet, chr(octet)) for octet in raw) + '">>'
