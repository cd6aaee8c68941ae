"""Encoder of a DataFrame's rows as messages, and the columns that make a message."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.spark.client.spark_connection import CHANNEL
from mirrormq.spark.data_source_options import PLACE_BYTES_MAX, SinkOptions
from mirrormq.spark.decode import EXCHANGE_HEADER, KEY_HEADER, REASON_HEADER
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.typed_fields import field_of
from mirrormq.wire.content import BASIC_CLASS, build_frames, method_frame
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import PERSISTENT, TRANSIENT, BasicProperties, encode_properties

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCER_HEADER, NUMBER_HEADER = "x-producer", "x-publish-id"

BODY = "body"
TEXTS = ("routing_key", "exchange", "content_type", "message_id")
OTHERS = ("headers", "headers_typed", "properties", "timestamp")
TYPED_HEADERS = ("map<string,struct<type:string,value:string>>", "map<string,struct<type,value>>")
IGNORED = ("queue", "sequence", "redelivered", "ingestion_time")
"""Columns of the source that a published message does not have."""

PROPERTY_NAMES = {
    name.rstrip("_"): name
    for name in BasicProperties._fields
    if name not in ("headers", "timestamp", "content_type", "message_id")
}
"""Fields of the column `properties` → their names in the codec."""
NUMBERS = ("delivery_mode", "priority")

REMEMBERED_MAX = 4096
"""Cached encodings of distinct properties, and of distinct targets: publishers repeat themselves."""

_BODY_HEAD = b"\x03" + CHANNEL.to_bytes(2, "big")
_HEADER_HEAD = struct.Struct(">BHIHH")
_LONG, _LONG_LONG = struct.Struct(">I"), struct.Struct(">Q")
_FRAME_END = b"\xce"


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """Refuse a DataFrame that cannot be published; `types` are Spark's simple names of its columns' types."""
    if types.get(BODY) not in ("binary", "string"):
        actual = f"is {types[BODY]}" if BODY in types else "is missing"
        raise OptionError(f"column body must be binary or string to be published, and {actual}")
    for name, kind in types.items():
        if name in TEXTS and kind != "string":
            raise OptionError(f"column {name} must be a string to be published, and is {kind}")
        if name == "headers" and kind != "map<string,string>":
            raise OptionError(f"column headers must be map<string,string> to be published, and is {kind}")
        if name == "headers_typed" and kind not in TYPED_HEADERS:
            raise OptionError(
                f"column headers_typed must be {TYPED_HEADERS[0]} to be published, and is {kind}"
            )
        if name == "timestamp" and kind != "timestamp":
            raise OptionError(f"column timestamp must be a timestamp to be published, and is {kind}")
        if name == "properties" and not kind.startswith("struct<"):
            raise OptionError(f"column properties must be a struct to be published, and is {kind}")
        if name not in (BODY, *TEXTS, *OTHERS, *IGNORED):
            raise OptionError(
                f"column {name} is no part of a message: select body, routing_key, exchange,"
                " headers, properties, content_type, message_id, timestamp"
            )
    exchange = options.exchange if options.exchange is not None else types.get("exchange", "")
    if not exchange and options.routing_key is None and "routing_key" not in types:
        raise OptionError("the target is missing: set option exchange or routingKey, or add such a column")


def check_properties(fields: Mapping[str, str]) -> None:
    """Refuse fields of the column `properties` that cannot be published."""
    for name, kind in fields.items():
        if name not in PROPERTY_NAMES:
            known = ", ".join(PROPERTY_NAMES)
            raise OptionError(f"properties.{name} is no property of a message: there are {known}")
        wanted = ("int", "bigint", "smallint", "tinyint") if name in NUMBERS else ("string",)
        if kind not in wanted:
            raise OptionError(f"properties.{name} must be {wanted[0]} to be published, and is {kind}")


class _Template(NamedTuple):
    """Header frame with gaps for the body's size and the message's number, and the head of a body frame."""

    head: bytes
    before: bytes
    after: bytes
    tail: bytes
    """Part after the number up to the end of the header frame, if no body follows."""


class RowEncoder:
    """Encoder of rows as messages, numbered from `first_number` on if there is a producer."""

    def __init__(self, options: SinkOptions, producer: str | None, first_number: int, frame_max: int) -> None:
        self.count = 0
        self._options = options
        self._producer = producer
        self._number = first_number
        self._body_max = frame_max - 8
        self._frame_max = frame_max
        self._places: dict[tuple[str, str], bytes] = {}
        self._templates: dict[Any, _Template] = {}

    def messages(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the messages in the order of the rows."""
        columns = {name: batch.column(name) for name in batch.schema.names if name not in IGNORED}
        bodies = columns.pop(BODY).to_pylist()
        exchanges = self._texts(columns.pop("exchange", None), self._options.exchange, len(bodies))
        keys = self._texts(columns.pop("routing_key", None), self._options.routing_key, len(bodies))
        names = tuple(columns)
        rest = zip(*(_values(name, column) for name, column in columns.items()), strict=True)
        for body in bodies:
            values = next(rest) if names else ()
            template = self._templates.get(values) or self._template(names, values)
            place = (next(exchanges), next(keys))
            why = _unpublishable(body, place)
            if why is not None and self._options.dead_letter_place is None:
                raise OptionError(why.text)
            if why is not None:
                row = dict(zip(names, values, strict=True))
                yield self._dead(why.reason, place, row, body)
            else:
                method = self._places.get(place) or self._place(place)
                yield self._message(method, template, body.encode() if isinstance(body, str) else body)
            self._number += 1
            self.count += 1

    def _message(self, method: bytes, template: _Template, body: bytes) -> bytes:
        size = len(body)
        number = _LONG_LONG.pack(self._number) if self._producer else b""
        head = (method, template.head, _LONG_LONG.pack(size), template.before, number)
        if 0 < size <= self._body_max:
            return b"".join((*head, template.after, _LONG.pack(size), body, _FRAME_END))
        header = b"".join((*head, template.tail))
        return header if not size else header + body_frames(body, self._frame_max)

    def _place(self, place: tuple[str, str]) -> bytes:
        if len(self._places) >= REMEMBERED_MAX:
            self._places.clear()
        payload = encode_basic_publish(*place, self._options.mandatory)
        method = self._places[place] = method_frame(CHANNEL, payload)
        return method

    def _dead(
        self, reason: str, place: tuple[str, str], row: dict[str, Any], body: str | bytes | None
    ) -> bytes:
        """Return a row that cannot be published as a dead letter, under the row's number."""
        to = self._options.dead_letter_place
        assert to is not None
        properties = self._properties(row, self._number)
        given = body.encode() if isinstance(body, str) else body or b""
        return dead_letter(to, reason, place, properties, given, self._frame_max)

    def _template(self, names: tuple[str, ...], values: tuple[Any, ...]) -> _Template:
        if len(self._templates) >= REMEMBERED_MAX:
            self._templates.clear()
        row = dict(zip(names, values, strict=True))
        properties = encode_properties(self._properties(row, 0))
        before, behind = properties, b""
        if self._producer:
            at = _first_difference(properties, encode_properties(self._properties(row, -1)))
            before, behind = properties[:at], properties[at + _LONG_LONG.size :]
        size = 12 + len(properties)
        head = _HEADER_HEAD.pack(2, CHANNEL, size, BASIC_CLASS, 0)
        tail = behind + _FRAME_END
        template = self._templates[values] = _Template(head, before, tail + _BODY_HEAD, tail)
        return template

    def _properties(self, row: dict[str, Any], number: int) -> BasicProperties:
        given = {PROPERTY_NAMES[name]: value for name, value in row.get("properties") or ()}
        if given.get("delivery_mode") is None:
            given["delivery_mode"] = PERSISTENT if self._options.persistent else TRANSIENT
        headers = _headers(row)
        if self._producer:
            # The publisher sets these headers: values of an earlier publish are meaningless.
            headers.pop(NUMBER_HEADER, None)
            headers[PRODUCER_HEADER] = Field("S", self._producer.encode())
            headers[NUMBER_HEADER] = Field("l", number)
        for name in ("content_type", "message_id", "timestamp"):
            given[name] = row.get(name)
        return BasicProperties(headers=headers or None, **given)

    def _texts(self, column: pa.Array | None, option: str | None, count: int) -> Iterator[str]:
        if option is not None or column is None:
            return iter([option or ""] * count)
        return (value or "" for value in column.to_pylist())


class Unpublishable(NamedTuple):
    """Reason why a row cannot be published: a code for headers, and a text."""

    reason: str
    text: str


def _unpublishable(body: str | bytes | None, place: tuple[str, str]) -> Unpublishable | None:
    if body is None:
        return Unpublishable("no_body", "a row has no body: filter out rows whose body is null")
    for name, text in zip(("exchange", "routing key"), place, strict=True):
        # A character has at most four bytes in UTF-8: short texts need no encoding to check.
        if len(text) * 4 > PLACE_BYTES_MAX < len(text.encode()):
            return Unpublishable("place_too_long", f"a row's {name} is too long: {len(text.encode())} bytes")
    return None


def dead_letter(
    to: tuple[str, str], reason: str, place: tuple[str, str], properties: BasicProperties,
    body: bytes | bytearray, frame_max: int,
) -> bytes:  # fmt: skip
    """Build a message for the dead-letter exchange: the same message with headers for reason and target."""
    headers: Table = dict(properties.headers or {})
    for name, text in ((REASON_HEADER, reason), (EXCHANGE_HEADER, place[0]), (KEY_HEADER, place[1])):
        headers[name] = Field("S", text.encode("utf-8", "surrogateescape")[:PLACE_BYTES_MAX])
    encoded = encode_properties(properties._replace(headers=headers))
    method = method_frame(CHANNEL, encode_basic_publish(*to, True))
    return method + build_frames(CHANNEL, encoded, bytes(body), frame_max)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return the first position at which two byte strings of equal length differ: the offset of the
    number."""
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)


def _headers(row: dict[str, Any]) -> Table:
    """Return a row's headers, with their types if the row has them."""
    typed = row.get("headers_typed")
    if typed is None:
        return {name: _header(value) for name, value in row.get("headers") or ()}
    try:
        return {name: field_of(*value) for name, value in typed}
    except ValueError as error:
        raise OptionError(f"column headers_typed: {error}") from None


def _header(value: str | None) -> Field:
    return Field("V", None) if value is None else Field("S", value.encode())


def _values(name: str, column: pa.Array) -> list[Any]:
    """Return a column's values as hashable objects."""
    values: list[Any] = column.to_pylist()
    if name == "headers":
        return [None if value is None else tuple(value) for value in values]
    if name == "headers_typed":
        return [
            None if value is None else tuple((key, (pair["type"], pair["value"])) for key, pair in value)
            for value in values
        ]
    if name == "properties":
        return [None if value is None else tuple(value.items()) for value in values]
    if name == "timestamp":
        return [int(value.timestamp()) if isinstance(value, datetime) else None for value in values]
    return values


def body_frames(body: bytes, frame_max: int) -> bytes:
    """Return the body frames of a body that is too large for one."""
    frames = build_frames(CHANNEL, b"\x00\x00", body, frame_max)
    return frames[8 + 14 :]
