"""Event facts as headers, with the types of RabbitMQ's event exchange.

In RabbitMQ facts are Erlang terms: every integer becomes a `long`, every float a `float`, an atom a string,
a list an array, a list of pairs a table. An empty object is therefore an empty array. Other values are
printed: an address is `{127,0,0,1}`, an argument of a declaration `{<<"x-max-length">>,signedint,5}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, ip_address

from mirrormq.wire.erlang_terms import term
from mirrormq.wire.fields import SHORT_STRING_BYTES_MAX, TYPE_NAMES, Field, ScaledDecimal, Table

Facts = dict[str, object]

PROTOCOL = "{0,9,1}"

_FLOAT_MAX = 3.4028234663852886e38
"""Largest number that a field of type `float` holds."""
_LONG_SPAN = 1 << 64


def headers(facts: Mapping[str, object]) -> Table:
    """Return facts as a table."""
    return {_key(name): header(value) for name, value in facts.items()}


def header(value: object) -> Field:
    """Return one fact as a field. Integers that do not fit lose their upper bits, as in Erlang."""
    match value:
        case bool():
            return Field("t", value)
        case int():
            return Field("l", (value + _LONG_SPAN // 2) % _LONG_SPAN - _LONG_SPAN // 2)
        case float():
            return Field("f" if abs(value) <= _FLOAT_MAX else "d", value)
        case None:
            return Field("S", b"null")
        case dict() if value:
            return Field("F", headers({key: value[key] for key in sorted(value, reverse=True)}))
        case dict() | list() | tuple():
            return Field("A", [header(item) for item in value])
    return Field("S", str(value).encode("utf-8", "surrogateescape"))


def _key(name: str) -> str:
    """Shorten a key of an operator's JSON to the length of a header name."""
    encoded = name.encode("utf-8", "surrogateescape")
    return encoded[:SHORT_STRING_BYTES_MAX].decode("utf-8", "surrogateescape")


def printed(table: Table) -> list[str]:
    """Return the entries of an AMQP table, each as Erlang prints it."""
    return [_entry(name, field) for name, field in table.items()]


def _entry(name: str, field: Field) -> str:
    return f"{{{term(name)},{TYPE_NAMES[field.kind]},{_value(field)}}}"


def _value(field: Field) -> str:
    match field.value:
        case dict() as table:
            return "[" + ",".join(printed(table)) + "]"
        case list() as items:
            return "[" + ",".join(f"{{{TYPE_NAMES[item.kind]},{_value(item)}}}" for item in items) + "]"
        case ScaledDecimal(scale, number):
            return f"{{{scale},{number}}}"
        case None:
            return "undefined"
    return term(field.value)


def printed_address(host: str) -> str:
    """Format an IP address as the tuple of its parts; return other text unchanged."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    size = 1 if isinstance(address, IPv4Address) else 2
    packed = address.packed
    parts = [int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size)]
    return "{" + ",".join(map(str, parts)) + "}"


def characters(text: str) -> list[int]:
    """Return a text as a list of character codes, which RabbitMQ sends as an array."""
    return [ord(character) for character in text]
