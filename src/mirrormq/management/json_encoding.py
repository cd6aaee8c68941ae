"""Decoding of paths and queries; invalid ones are refused as in RabbitMQ."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from mirrormq.management.http_errors import BAD_REQUEST, SilentRefusal

INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_well_escaped(text: str) -> bool:
    """Report whether two hexadecimal digits follow each percent sign."""
    return BROKEN.search(text) is None


def query_of(text: str, *, strict: bool) -> dict[str, str]:
    """Return the values of a query by name; the first value of a name counts. If strict, a value needs a
    name."""
    if strict and (not is_well_escaped(text) or any(pair.startswith("=") for pair in text.split("&"))):
        raise SilentRefusal(BAD_REQUEST)
    return dict(reversed(parse_qsl(text, keep_blank_values=True)))


def integer(text: str) -> int:
    """Parse an integer as Erlang does: an optional sign and digits only."""
    if INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)
