"""Envelope of a message: parses the fields that queues and routes need, and nothing else."""

from __future__ import annotations

import re

from mirrormq.queues.message import Envelope
from mirrormq.wire.content import properties_of as properties_of
from mirrormq.wire.properties import scan_properties

PUBLISH_IDS_SIZE = 6
"""Size of class and method ids and the reserved short of basic.publish."""

EXPIRATION_MS_MAX = 10 * 365 * 86_400_000
"""Longest expiration that RabbitMQ accepts: ten years."""

_NUMBER = re.compile(rb"[+-]?[0-9]+")


class ExpirationInvalid(ValueError):
    """Error for an expiration property that is not a number of milliseconds in range; text in RabbitMQ's
    words."""


def make_envelope(publish: bytes, properties: bytes) -> Envelope:
    """Parse a basic.publish payload and the properties.

    Raise ExpirationInvalid, or FrameSyntaxError for truncated properties. IndexError cannot occur: the
    method's decoder has verified the payload before.
    """
    exchange_end = PUBLISH_IDS_SIZE + 1 + publish[PUBLISH_IDS_SIZE]
    key_end = exchange_end + 1 + publish[exchange_end]
    persistent, priority, expiration, _, _ = scan_properties(properties)
    return Envelope(
        publish,
        publish[PUBLISH_IDS_SIZE + 1 : exchange_end].decode("utf-8", "surrogateescape"),
        publish[exchange_end + 1 : key_end].decode("utf-8", "surrogateescape"),
        publish[key_end] & 1 != 0,
        properties,
        persistent,
        priority,
        None if expiration is None else parse_expiration(expiration),
        b"\x00" + publish[PUBLISH_IDS_SIZE:key_end] + b"\xce",
    )


def address_of(publish: bytes) -> tuple[bytes, bytes]:
    """Return exchange and routing key of a basic.publish payload."""
    exchange_end = PUBLISH_IDS_SIZE + 1 + publish[PUBLISH_IDS_SIZE]
    key_end = exchange_end + 1 + publish[exchange_end]
    return publish[PUBLISH_IDS_SIZE + 1 : exchange_end], publish[exchange_end + 1 : key_end]


def parse_expiration(text: bytes) -> int:
    """Return the expiration property in milliseconds."""
    shown = text.decode("utf-8", "surrogateescape")
    number = _NUMBER.match(text)
    if number is None:
        raise ExpirationInvalid(f"invalid expiration '{shown}': no_integer")
    if number.end() < len(text):
        rest = text[number.end() :].decode("utf-8", "surrogateescape")
        raise ExpirationInvalid(f"invalid expiration '{shown}': {{leftover_string,\"{rest}\"}}")
    milliseconds = int(text)
    if milliseconds < 0:
        raise ExpirationInvalid(f"invalid expiration '{shown}': {{value_negative,{milliseconds}}}")
    if milliseconds > EXPIRATION_MS_MAX:
        raise ExpirationInvalid(f"invalid expiration '{shown}': {{value_too_large,{milliseconds}}}")
    return milliseconds
