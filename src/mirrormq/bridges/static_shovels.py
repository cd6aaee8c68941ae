"""Static shovels: the definitions that a node has in its settings.

    shovel.archive.src-uri = amqp://
    shovel.archive.src-queue = orders
    shovel.archive.dest-uri.1 = amqp://user:password@archive1
    shovel.archive.dest-uri.2 = amqp://user:password@archive2
    shovel.archive.dest-queue = orders
    shovel.archive.dest-queue-args.x-max-length = 1000000

Keys are those of dynamic shovels. A sentence about a fault never shows a URI, because URIs contain passwords.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mirrormq.bridges.shovel_parameters import (
    CONSUMER_ARGUMENTS,
    DROP,
    HEADERS_PROPERTY,
    KEEP,
    NUMBER_PROPERTIES,
    QUEUE_ARGUMENTS,
    TEXT_PROPERTIES,
    ShovelDefinition,
    definition_of,
    faults,
)
from mirrormq.client.amqp_uri import URI_FORM, UriError, parse_amqp_uri
from mirrormq.errors import ConfigurationError

if TYPE_CHECKING:
    from mirrormq.config.settings import ShovelEntry

Reader = Callable[[str], Any]
"""Reader of one value; raises ValueError with the words that fit after "must be"."""


def _text(value: str) -> str:
    return value


def _integer(value: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", value):
        raise ValueError("a whole number")
    return int(value)


def _count(value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value):
        raise ValueError("a whole number of at least 0")
    return int(value)


def _seconds(value: str) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
        raise ValueError("a number of seconds of at least 0")
    return float(value)


def _boolean(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def _one_of(*choices: str) -> Reader:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0])
        return value

    return read


def _offset(value: str) -> int | str:
    return int(value) if re.fullmatch(r"\d{1,18}", value) else value


def _never(value: str) -> str:
    if value != "never":
        raise ValueError("never (a shovel that ends is a parameter: mirrormqctl set_parameter shovel)")
    return value


TEXT_ARGUMENTS = frozenset(
    {
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-ha-policy",
        "x-max-age", "x-overflow", "x-queue-leader-locator", "x-queue-master-locator", "x-queue-mode",
        "x-queue-type",
    }
)  # fmt: skip
BOOLEAN_ARGUMENTS = frozenset({"x-single-active-consumer", "x-cancel-on-ha-failover"})


def _argument(name: str) -> Reader:
    """Return the reader of an argument of a queue or consumer."""
    if name in TEXT_ARGUMENTS:
        return _text
    if name == "x-stream-offset":
        return _offset
    return _boolean if name in BOOLEAN_ARGUMENTS else _integer


KEYS: Mapping[str, Reader] = {
    "src-protocol": _one_of("amqp091"),
    "src-queue": _text,
    "src-exchange": _text,
    "src-exchange-key": _text,
    "src-predeclared": _boolean,
    "src-consumer-name": _text,
    "src-prefetch-count": _count,
    "src-delete-after": _never,
    "dest-protocol": _one_of("amqp091"),
    "dest-queue": _text,
    "dest-predeclared": _boolean,
    "dest-unroutable": _one_of(KEEP, DROP),
    "dest-exchange": _text,
    "dest-exchange-key": _text,
    "dest-add-forward-headers": _boolean,
    "dest-add-timestamp-header": _boolean,
    "ack-mode": _one_of("on-confirm", "on-publish", "no-ack"),
    "reconnect-delay": _seconds,
}
TABLES: Mapping[str, Mapping[str, Reader]] = {
    "src-queue-args": {name: _argument(name) for name in QUEUE_ARGUMENTS},
    "src-consumer-args": {name: _argument(name) for name in CONSUMER_ARGUMENTS},
    "dest-queue-args": {name: _argument(name) for name in QUEUE_ARGUMENTS},
    "dest-publish-properties": {
        **dict.fromkeys(TEXT_PROPERTIES, _text),
        **dict.fromkeys(NUMBER_PROPERTIES, _count),
    },
}
HEADERS = ("dest-publish-properties", HEADERS_PROPERTY)
"""Key of a table of texts with any names: shovel.NAME.dest-publish-properties.headers.HEADER."""
URI_KEYS = ("src-uri", "dest-uri")


def shovel_definitions(entries: Iterable[ShovelEntry]) -> dict[str, ShovelDefinition]:
    """Return the static shovels by name; raise ConfigurationError with a sentence about the first fault."""
    by_name: dict[str, list[ShovelEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    return {name: _definition(name, given) for name, given in by_name.items()}


def _definition(name: str, entries: list[ShovelEntry]) -> ShovelDefinition:
    value: dict[str, Any] = {}
    uris: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        key, *rest = entry.path
        if key in URI_KEYS:
            uris.setdefault(key, []).append((_uri_position(entry), _uri(entry)))
        elif key in TABLES and len(rest) == 1 and rest[0] in TABLES[key]:
            value.setdefault(key, {})[rest[0]] = _read(TABLES[key][rest[0]], entry)
        elif (key, *rest[:1]) == HEADERS and len(rest) == 2:
            value.setdefault(key, {}).setdefault(HEADERS_PROPERTY, {})[rest[1]] = entry.value
        elif key in KEYS and not rest:
            value[key] = _read(KEYS[key], entry)
        else:
            raise ConfigurationError(f"{entry.source}: unknown key {entry.key}{_nearest(entry)}.")
    value |= {key: [uri for _, uri in sorted(given)] for key, given in uris.items()}
    _check_whole(name, value, entries[0].source)
    return definition_of(value)


def _check_whole(name: str, value: Mapping[str, Any], source: str) -> None:
    """Raise ConfigurationError if keys of a shovel are missing or exclude each other."""
    prefix = f"shovel.{name}"
    for key in URI_KEYS:
        if key not in value:
            raise ConfigurationError(f"{source}: {prefix} needs {prefix}.{key} = {URI_FORM}.")
    if "src-queue" not in value and "src-exchange" not in value:
        raise ConfigurationError(f"{source}: {prefix} needs {prefix}.src-queue or {prefix}.src-exchange.")
    for end in ("src", "dest"):
        if f"{end}-queue" in value and f"{end}-exchange" in value:
            raise ConfigurationError(
                f"{source}: set {prefix}.{end}-queue or {prefix}.{end}-exchange, not both."
            )
    if found := faults(name, value):
        raise ConfigurationError(f"{source}: {prefix}: {'; '.join(found)}.")


def _uri_position(entry: ShovelEntry) -> int:
    """Return the place of a URI in its list; a key without a number is a list of one."""
    rest = entry.path[1:]
    if not rest:
        return 0
    if len(rest) != 1 or not re.fullmatch(r"\d{1,9}", rest[0]):
        key = f"shovel.{entry.name}.{entry.path[0]}"
        raise ConfigurationError(
            f"{entry.source}: write {entry.key} as {key}, or as {key}.1, {key}.2 and so on."
        )
    return int(rest[0])


def _uri(entry: ShovelEntry) -> str:
    try:
        parse_amqp_uri(entry.value)
    except UriError:
        raise ConfigurationError(
            f"{entry.source}: {entry.key} must be a URI such as {URI_FORM}, not that value."
        ) from None
    return entry.value


def _read(reader: Reader, entry: ShovelEntry) -> Any:
    try:
        return reader(entry.value)
    except ValueError as error:
        raise ConfigurationError(
            f"{entry.source}: {entry.key} must be {error}, not `{entry.value}`."
        ) from None


def _nearest(entry: ShovelEntry) -> str:
    known = [*KEYS, *URI_KEYS, *(f"{table}.{name}" for table, names in TABLES.items() for name in names)]
    close = difflib.get_close_matches(".".join(entry.path), known, n=1, cutoff=0.6)
    return f"; the nearest known key is shovel.{entry.name}.{close[0]}" if close else ""
