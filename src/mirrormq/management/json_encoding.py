"""What a client has encoded: paths and queries, refused as RabbitMQ refuses them where they are broken."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from mirrormq.management.http_errors import BAD_REQUEST, SilentRefusal

WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_whole(text: str) -> bool:
    """Do two digits follow each percent sign?"""
    return BROKEN.search(text) is None


def query_of(text: str, *, strict: bool) -> dict[str, str]:
    """The values of a query by their names; the first of a name counts. Strictly a value needs a name."""
    if strict and (not is_whole(text) or any(pair.startswith("=") for pair in text.split("&"))):
        raise SilentRefusal(BAD_REQUEST)
    return dict(reversed(parse_qsl(text, keep_blank_values=True)))


def whole(text: str) -> int:
    """A whole number as Erlang reads it: digits, with a sign or without, and nothing else."""
    if WHOLE.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)
