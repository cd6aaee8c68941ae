"""Faults of rows: reasons why no broker takes a row as a message.

A broker answers such a message by closing the channel or the connection, and a batch that holds it would fail
however often it is repeated. The sink therefore finds faults before it publishes.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from mirrormq.spark.data_source_options import PLACE_BYTES_MAX, SinkOptions
from mirrormq.wire.fields import Table, encode_table
from mirrormq.wire.properties import PERSISTENT, TRANSIENT, BasicProperties, encode_properties

EXPIRATION_MS_MAX = 10 * 365 * 86_400_000
"""Longest expiration that RabbitMQ takes: ten years."""

HEADER_FRAME_OVERHEAD = 7 + 12 + 1
"""Bytes of a header frame beside the properties: its head, class and body size, its end."""

ENCODING_ERRORS = (ValueError, OverflowError, struct.error)


class RowFault(NamedTuple):
    """Fault of a row: a code for headers, and a text."""

    reason: str
    text: str


class NotUtf8:
    """Value of a column whose bytes are not UTF-8."""


NOT_UTF8 = NotUtf8()


def content_fault(
    body: bytes | None, place: tuple[str | NotUtf8, str | NotUtf8], options: SinkOptions
) -> RowFault | None:
    """Return the fault of a row's body or target."""
    if body is None:
        return RowFault("no_body", "a row has no body: filter out rows whose body is null")
    if len(body) > options.body_bytes_max:
        limit = f"maxBodyBytes is {options.body_bytes_max}"
        return RowFault("body_too_large", f"a row's body has {len(body)} bytes, and {limit}")
    for name, text in zip(("exchange", "routing key"), place, strict=True):
        if isinstance(text, NotUtf8):
            return RowFault("not_utf8", f"a row's {name} is not UTF-8")
        # A character has at most four bytes in UTF-8: short texts need no encoding to check.
        if len(text) * 4 > PLACE_BYTES_MAX < len(text.encode()):
            return RowFault("place_too_long", f"a row's {name} is too long: {len(text.encode())} bytes")
    return None


def property_faults(properties: BasicProperties) -> dict[str, str]:
    """Return the properties and headers that no broker takes, by name, with the reason."""
    found = {}
    for name, value in zip(properties._fields, properties, strict=True):
        if name == "headers" or value is None:
            continue
        one: dict[str, Any] = {name: value}
        fault = _value_fault(name, value)
        if fault is None:
            try:
                encode_properties(BasicProperties()._replace(**one))
            except ENCODING_ERRORS as error:
                fault = str(error)
        if fault is not None:
            found[name] = f"property {name.rstrip('_')}: {fault}"
    for name, field in (properties.headers or {}).items():
        try:
            encode_table({name: field})
            if name in ("CC", "BCC") and field.kind != "A":
                found[name] = f"header {name}: it must be an array, which headers_typed has"
        except ENCODING_ERRORS as error:
            found[name] = f"header {name[:PLACE_BYTES_MAX]}: {error}"
    return found


def is_plain(properties: BasicProperties) -> bool:
    """Whether no property has a value that can be encoded and that brokers refuse."""
    headers = properties.headers
    return (
        properties.delivery_mode in (TRANSIENT, PERSISTENT)
        and properties.expiration is None
        and not (headers and ("CC" in headers or "BCC" in headers))
    )


def _value_fault(name: str, value: object) -> str | None:
    if name == "delivery_mode" and value not in (TRANSIENT, PERSISTENT):
        return f"{value} is neither 1 nor 2"
    if name == "expiration":
        text = str(value)
        if not re.fullmatch(r"\+?[0-9]{1,15}", text, re.ASCII) or int(text) > EXPIRATION_MS_MAX:
            return f"{text[:PLACE_BYTES_MAX]!r} is no number of milliseconds up to {EXPIRATION_MS_MAX}"
    return None


def without_faults(properties: BasicProperties) -> BasicProperties:
    """Return the properties without those that no broker takes."""
    faults = property_faults(properties)
    headers: Table = {name: field for name, field in (properties.headers or {}).items() if name not in faults}
    left = {name: None for name in faults if name in properties._fields}
    return properties._replace(**left, headers=headers or None)
