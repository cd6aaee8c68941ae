"""Checks of parameter values of shovels and federation, with the texts of RabbitMQ 3.10.8.

A value is an object with a table of known keys. All faults are reported at once: unknown keys first, then the
known keys in reverse order of the table, as RabbitMQ's fold over that table leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mirrormq.client.amqp_uri import UriError, parse_amqp_uri
from mirrormq.uri_passwords import masked_uri
from mirrormq.wire.erlang_terms import LINE_WIDTH, properties, term

Check = Callable[[str, Any], list[str]]
"""Check of one key: name and value in, faults out."""


class ParameterKey(NamedTuple):
    """Known key of a parameter's value."""

    name: str
    check: Check
    mandatory: bool = False


def check_object(name: str, keys: Iterable[ParameterKey], value: Any) -> list[str]:
    """Return the faults of an object; an empty list stands for an empty object, as in Erlang."""
    if value == []:
        value = {}
    if not isinstance(value, dict):
        return [f"{name} not a list {term(value)}"]
    rest, faults = dict(value), []
    for key in keys:
        if key.name in rest:
            faults.append(key.check(key.name, rest.pop(key.name)))
        elif key.mandatory:
            faults.append([f'Key "{key.name}" not found in {name}'])
    unknown = [f"Unrecognised terms {properties(rest)} in {name}"] if rest else []
    return unknown + [fault for found in reversed(faults) for fault in found]


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(name: str, value: Any) -> list[str]:
    return [] if is_number(value) else [f"{name} should be a number, actually was {term(value)}"]


def boolean(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, bool) else [f"{name} should be boolean, actually was {term(value)}"]


def text(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, str) else [f"{name} should be binary, actually was {term(value)}"]


def one_of(*allowed: str) -> Check:
    """Return the check for a text with a few possible values."""

    def check(name: str, value: Any) -> list[str]:
        if not isinstance(value, str):
            return text(name, value)
        if value in allowed:
            return []
        return [f"{name} should be one of {term(list(allowed))}, actually was {term(value)}"]

    return check


def uris(name: str, value: Any) -> list[str]:
    """Check a URI or a list of URIs. RabbitMQ accepts an empty list, and then fails when it connects."""
    if isinstance(value, str):
        return _uri(value)
    if not isinstance(value, list):
        return [f"{name} should be list, actually was {term(value)}"]
    if not value:
        return [f"{name} should be a list of at least one URI, actually was []"]
    for each in value:
        if faults := uris(name, each) if not isinstance(each, list) else [_not_a_uri(name, each)]:
            return faults
    return []


def _not_a_uri(name: str, value: Any) -> str:
    return f"{name} should be binary, actually was {term(value)}"


def _uri(uri: str) -> list[str]:
    try:
        parse_amqp_uri(uri)
    except UriError as error:
        # RabbitMQ repeats the URI with its password. Here the text may reach logs of scripts and of CI.
        shown = masked_uri(uri)
        prefix = f'"{shown}" not a valid URI: '
        quoted = f'"{shown}"' if uri else "[]"
        line = f"{prefix}{{{error.reason},{quoted}}}"
        if len(line) >= LINE_WIDTH:
            # Erlang's ~p starts a new line below the first element of the tuple.
            line = f"{prefix}{{{error.reason},\n{' ' * (len(prefix) + 1)}{quoted}}}"
        return [line]
    return []


def uri_list(value: Any) -> list[str]:
    """Return the URIs of a checked value."""
    return [value] if isinstance(value, str) else list(value)
