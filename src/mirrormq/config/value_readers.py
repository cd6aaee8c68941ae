"""Readers that convert the text of one value.

A reader takes the text and returns the value, or raises ValueError with the words that fit after "must be".
The caller adds source and key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mirrormq.config.settings import CLUSTER_PORT, Address, Seed

Reader = Callable[[str], object]

# RabbitMQ's rule: a bare letter or `…iB` counts in 1024s, `…B` in 1000s.
UNITS = {"": 1}
for _power, _letter in enumerate("kmgt", start=1):
    UNITS |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
SIZE = re.compile(r"^(\d+)\s*([a-zA-Z]*)$")
PORT_MAX = 65535


def text(value: str) -> str:
    """Return the value unchanged."""
    return value


def boolean(value: str) -> bool:
    """Read `true`/`false`, or `on`/`off`, as cuttlefish does."""
    words = {"true": True, "on": True, "false": False, "off": False}
    if value.lower() not in words:
        raise ValueError("true or false")
    return words[value.lower()]


def integer(minimum: int = 0, maximum: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds."""
    bound = f"a whole number of at least {minimum}"
    if maximum is not None:
        bound = f"a whole number from {minimum} to {maximum}"

    def read(value: str) -> int:
        if not re.fullmatch(r"-?\d+", value):
            raise ValueError(bound)
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(bound)
        return number

    return read


def positive_float(value: str) -> float:
    """Read a number above zero."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError("a number above 0") from None
    if not 0 < number < float("inf"):
        raise ValueError("a number above 0")
    return number


def milliseconds_as_s(value: str) -> float:
    """Read milliseconds and return seconds."""
    return integer(1)(value) / 1000


def size_bytes(value: str) -> int:
    """Read a number of bytes with an optional unit: `1073741824`, `512MB`, `2GiB`."""
    match = SIZE.match(value)
    if match is None or match[2].lower() not in UNITS:
        raise ValueError("a number of bytes with an optional unit, such as 512MB or 2GiB")
    return int(match[1]) * UNITS[match[2].lower()]


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a reader of one of a few words."""

    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return value

    return read


def optional_timeout_ms(value: str) -> int | None:
    """Read milliseconds, or `undefined`, `false`, `infinity` for no timeout."""
    if value in ("undefined", "false", "infinity"):
        return None
    try:
        return integer(1)(value)
    except ValueError:
        raise ValueError("a number of milliseconds, or undefined for no timeout") from None


def optional_age(value: str) -> int | None:
    """Read seconds, or `undefined` for none."""
    if value == "undefined":
        return None
    try:
        return integer(0)(value)
    except ValueError:
        raise ValueError("a number of seconds, or undefined") from None


def optional_limit(value: str) -> int | None:
    """Read a count, or `infinity` for no limit."""
    return None if value == "infinity" else integer(1)(value)


def address(value: str) -> Address:
    """Read `5672`, `127.0.0.1:5672`, `[::1]:5672` or `::1:5672`."""
    host, _, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not port.isdecimal() or int(port) > PORT_MAX or (":" in value and not host):
        raise ValueError("PORT or HOST:PORT")
    return Address(host, int(port))


def address_or_none(value: str) -> Address | None:
    """Read an address, or `none` for no listener."""
    return None if value == "none" else address(value)


def path(value: str) -> Path:
    """Read a path; a leading `~` is the home directory."""
    return Path(value).expanduser()


def path_or_false(value: str) -> Path | None:
    """Read a path, or `false` for none."""
    return None if value.lower() == "false" else path(value)


def readable_file(value: str) -> Path:
    """Read the path of a file that exists and is readable now, not when the first client needs it."""
    found = Path(value).expanduser()
    try:
        with found.open("rb"):
            return found
    except OSError as error:
        raise ValueError(f"a readable file (`{value}`: {error.strerror})") from None


def seed(value: str) -> Seed:
    """Read NAME@HOST or NAME@HOST:PORT; the port defaults to the cluster port."""
    name, colon, port = value.partition(":")
    try:
        node_name(name)
        number = integer(1, PORT_MAX)(port) if colon else CLUSTER_PORT
    except ValueError:
        raise ValueError("NAME@HOST or NAME@HOST:PORT, such as mirror1@localhost:25672") from None
    return Seed(name, Address(name.partition("@")[2], number))


def node_name(value: str) -> str:
    """Read NAME@HOST, in characters that are safe in a file name."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+", value):
        raise ValueError("NAME@HOST in letters, digits, `_`, `-` and `.`, such as mirror1@localhost")
    return value


def discovery_backend(value: str) -> str:
    """Read the backend of peer discovery, by its short name or as RabbitMQ's module."""
    backends = ("classic_config", "dns", "k8s")
    aliases = {"kubernetes": "k8s"}
    short = value.removeprefix("rabbit_peer_discovery_")
    return one_of(*backends)(aliases.get(short, short))
