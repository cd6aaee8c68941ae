"""Encoder of a DataFrame's rows as messages, and the columns that make a message."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from mirrormq.spark.client.spark_connection import CHANNEL
from mirrormq.spark.data_source_options import PLACE_BYTES_MAX, SinkOptions
from mirrormq.spark.decode import EXCHANGE_HEADER, FAULT_HEADER, KEY_HEADER, REASON_HEADER
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.sink.row_faults import (
    ENCODING_ERRORS,
    HEADER_FRAME_OVERHEAD,
    NOT_UTF8,
    NotUtf8,
    RowFault,
    content_fault,
    is_plain,
    property_faults,
    without_faults,
)
from mirrormq.spark.typed_fields import field_of
from mirrormq.wire.content import BASIC_CLASS, build_frames, method_frame
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import PERSISTENT, TRANSIENT, BasicProperties, encode_properties

PRODUCER_HEADER, NUMBER_HEADER = "x-producer", "x-publish-id"

DEAD_LETTER_HEADERS = (
    PRODUCER_HEADER, NUMBER_HEADER, REASON_HEADER, FAULT_HEADER, EXCHANGE_HEADER, KEY_HEADER
)  # fmt: skip
"""Headers of a dead letter that it keeps if its message has too many."""

FAULT_CHARACTERS_MAX = 512
"""Longest text of a fault in a dead letter: a row's own values may be in it."""

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

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
        self._templates: dict[Any, _Template | RowFault] = {}

    def messages(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the messages in the order of the rows."""
        columns = {name: batch.column(name) for name in batch.schema.names if name not in IGNORED}
        bodies = columns.pop(BODY).cast(pa.large_binary()).to_pylist()
        exchanges = self._texts(columns.pop("exchange", None), self._options.exchange, len(bodies))
        keys = self._texts(columns.pop("routing_key", None), self._options.routing_key, len(bodies))
        names = tuple(columns)
        rest = zip(*(_values(name, column) for name, column in columns.items()), strict=True)
        for body in bodies:
            values = next(rest) if names else ()
            template = self._templates.get(values) or self._template(names, values)
            place = (next(exchanges), next(keys))
            fault = content_fault(body, place, self._options)
            if isinstance(template, RowFault):
                fault = fault or template
            elif fault is None:
                method = self._places.get(place) or self._place(place)
                yield self._message(method, template, body)
            if fault is not None and self._options.dead_letter_place is None:
                raise OptionError(fault.text)
            if fault is not None:
                row = dict(zip(names, values, strict=True))
                yield self._dead(fault, place, row, body)
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
        self, fault: RowFault, place: tuple[str | NotUtf8, str | NotUtf8], row: dict[str, Any],
        body: bytes | None,
    ) -> bytes:  # fmt: skip
        """Return a row that cannot be published as a dead letter, under the row's number, with what of it can
        be published."""
        to = self._options.dead_letter_place
        assert to is not None
        properties = without_faults(self._properties(row, self._number)[0])
        text = fault.text[:FAULT_CHARACTERS_MAX].encode("utf-8", "replace")
        headers = {**(properties.headers or {}), FAULT_HEADER: Field("S", text)}
        exchange, key = ("" if isinstance(text, NotUtf8) else text for text in place)
        given = b"" if body is None or len(body) > self._options.body_bytes_max else body
        properties = properties._replace(headers=headers)
        return dead_letter(to, fault.reason, (exchange, key), properties, given, self._frame_max)

    def _template(self, names: tuple[str, ...], values: tuple[Any, ...]) -> _Template | RowFault:
        if len(self._templates) >= REMEMBERED_MAX:
            self._templates.clear()
        row = dict(zip(names, values, strict=True))
        found = self._templates[values] = self._encoded(row)
        return found

    def _encoded(self, row: dict[str, Any]) -> _Template | RowFault:
        given, fault = self._properties(row, 0)
        if fault is not None:
            return fault
        try:
            properties = encode_properties(given)
            faults = {} if is_plain(given) else property_faults(given)
        except ENCODING_ERRORS:
            faults = property_faults(given)
            if not faults:
                raise
        if faults:
            text = f"a row cannot be published, because of its {next(iter(faults.values()))}"
            return RowFault("invalid_properties", text)
        if len(properties) + HEADER_FRAME_OVERHEAD > self._frame_max:
            text = (
                f"a row's properties and headers have {len(properties)} bytes, and a frame {self._frame_max}"
            )
            return RowFault("properties_too_large", text)
        before, behind = properties, b""
        if self._producer:
            at = _first_difference(properties, encode_properties(self._properties(row, -1)[0]))
            before, behind = properties[:at], properties[at + _LONG_LONG.size :]
        size = 12 + len(properties)
        head = _HEADER_HEAD.pack(2, CHANNEL, size, BASIC_CLASS, 0)
        tail = behind + _FRAME_END
        return _Template(head, before, tail + _BODY_HEAD, tail)

    def _properties(self, row: dict[str, Any], number: int) -> tuple[BasicProperties, RowFault | None]:
        """Return the properties of a row, and the fault of a column that cannot be among them."""
        row, fault = _without_invalid(row)
        given = {PROPERTY_NAMES[name]: value for name, value in row.get("properties") or ()}
        if given.get("delivery_mode") is None:
            given["delivery_mode"] = PERSISTENT if self._options.persistent else TRANSIENT
        headers, wrong = _headers(row)
        if self._producer:
            # The publisher sets these headers: values of an earlier publish are meaningless.
            headers.pop(NUMBER_HEADER, None)
            headers[PRODUCER_HEADER] = Field("S", self._producer.encode())
            headers[NUMBER_HEADER] = Field("l", number)
        for name in ("content_type", "message_id", "timestamp"):
            given[name] = row.get(name)
        return BasicProperties(headers=headers or None, **given), fault or wrong

    def _texts(self, column: pa.Array | None, option: str | None, count: int) -> Iterator[Any]:
        if option is not None or column is None:
            return iter([option or ""] * count)
        return (value or "" for value in _python_values(column))


def dead_letter(
    to: tuple[str, str], reason: str, place: tuple[str, str], properties: BasicProperties,
    body: bytes | bytearray, frame_max: int,
) -> bytes:  # fmt: skip
    """Build a message for the dead-letter exchange: the same message with headers for reason and target."""
    headers: Table = dict(properties.headers or {})
    for name, text in ((REASON_HEADER, reason), (EXCHANGE_HEADER, place[0]), (KEY_HEADER, place[1])):
        headers[name] = Field("S", text.encode("utf-8", "surrogateescape")[:PLACE_BYTES_MAX])
    encoded = encode_properties(properties._replace(headers=headers))
    if len(encoded) + HEADER_FRAME_OVERHEAD > frame_max:
        # The headers of the message leave no room for those of a dead letter.
        headers = {name: headers[name] for name in DEAD_LETTER_HEADERS if name in headers}
        encoded = encode_properties(properties._replace(headers=headers))
    method = method_frame(CHANNEL, encode_basic_publish(*to, True))
    return method + build_frames(CHANNEL, encoded, bytes(body), frame_max)


def _first_difference(one: bytes, other: bytes) -> int:
    """Return the first position at which two byte strings of equal length differ: the offset of the
    number."""
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)


def _without_invalid(row: dict[str, Any]) -> tuple[dict[str, Any], RowFault | None]:
    """Return a row without the columns that are not UTF-8, and the fault of the first one."""
    invalid = [name for name, value in row.items() if isinstance(value, NotUtf8)]
    if not invalid:
        return row, None
    left = {name: value for name, value in row.items() if name not in invalid}
    return left, RowFault("not_utf8", f"a row's {invalid[0]} is not UTF-8")


def _headers(row: dict[str, Any]) -> tuple[Table, RowFault | None]:
    """Return a row's headers, with their types if the row has them, and the fault of one that has none."""
    typed = row.get("headers_typed")
    if typed is None:
        return {name: _header(value) for name, value in row.get("headers") or ()}, None
    found: Table = {}
    fault = None
    for name, value in typed:
        try:
            found[name] = field_of(*value)
        except ValueError as error:
            fault = fault or RowFault("invalid_properties", f"column headers_typed: {error}")
    return found, fault


def _header(value: str | None) -> Field:
    return Field("V", None) if value is None else Field("S", value.encode())


def _values(name: str, column: pa.Array) -> list[Any]:
    """Return a column's values as hashable objects."""
    if name == "timestamp":
        # Not as Python's times, which end in the year 9999.
        per_second = UNITS_PER_SECOND[column.type.unit]
        times = column.cast(pa.int64()).to_pylist()
        return [None if value is None else value // per_second for value in times]
    values = _python_values(column)
    convert = _CONVERSIONS.get(name)
    if convert is None:
        return values
    return [value if value is None or value is NOT_UTF8 else convert(value) for value in values]


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "headers": tuple,
    "headers_typed": lambda value: tuple((key, (pair["type"], pair["value"])) for key, pair in value),
    "properties": lambda value: tuple(value.items()),
}


def _python_values(column: pa.Array) -> list[Any]:
    """Return a column's values; NOT_UTF8 for each that has a text of other bytes."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_python_value(value) for value in column]
    return values


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return NOT_UTF8


def body_frames(body: bytes, frame_max: int) -> bytes:
    """Return the body frames of a body that is too large for one."""
    frames = build_frames(CHANNEL, b"\x00\x00", body, frame_max)
    return frames[8 + 14 :]
