"""Conversion of broker batches to Arrow record batches, column by column.

Sequence, flag and body differ from row to row; their buffers are used without copying. Shared fields are
decoded once for each distinct envelope, and Arrow expands them over the rows. No loop iterates over the rows,
unless every message has its own properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from mirrormq.ranges.range_batch import BatchEnvelope, RangeBatch
from mirrormq.spark.source.arrays import RepeatedColumn, flags
from mirrormq.spark.source.row_schema import PROPERTIES
from mirrormq.wire.fields import Field, plain_value
from mirrormq.wire.properties import BasicProperties, decode_properties

MICROSECONDS = 1_000_000

TIMESTAMP_MAX_S = 253_402_300_799
"""End of the year 9999, Spark's last. A later stamp, of a client that does not count in seconds, becomes
null."""


class ArrowColumns:
    """Converter to record batches of one Arrow schema, which has the names of `row_schema.COLUMNS` or
    fewer."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def record_batch(self, queue: str, batch: RangeBatch) -> pa.RecordBatch:
        envelopes = batch.envelopes()
        properties = [decode_properties(envelope.properties, 0) for envelope in envelopes]
        spread = RepeatedColumn(batch.envelope_indexes)

        def column(field: pa.Field) -> pa.Array:
            if field.name in _PLAIN:
                return _PLAIN[field.name](batch)
            if field.name == "queue":
                return spread.repeated(queue, field.type)
            make = _MAKERS[field.name]
            values = [make(*pair) for pair in zip(envelopes, properties, strict=True)]
            return spread.column(values, field.type)

        return pa.RecordBatch.from_arrays(list(map(column, self._schema)), schema=self._schema)


def _sequences(batch: RangeBatch) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(batch), [None, pa.py_buffer(batch.sequences)])


def _bodies(batch: RangeBatch) -> pa.Array:
    buffers = [None, pa.py_buffer(batch.body_offsets), pa.py_buffer(batch.bodies)]
    return pa.Array.from_buffers(pa.binary(), len(batch), buffers)


_PLAIN: dict[str, Callable[[RangeBatch], pa.Array]] = {
    "sequence": _sequences,
    "redelivered": lambda batch: flags(batch.redelivered),
    "body": _bodies,
}
"""Columns whose buffers are used without copying."""


def _text(value: str | None) -> str | None:
    """Return valid UTF-8 text: clients can send any bytes where AMQP has a string."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _timestamp(seconds: int | None) -> int | None:
    return None if seconds is None or seconds > TIMESTAMP_MAX_S else seconds * MICROSECONDS


def header_text(field: Field) -> str | None:
    """Return a header's value as text: strings unchanged, anything else as JSON."""
    value = plain_value(field)
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _text(value)
    return _text(json.dumps(value, default=_plain_json, ensure_ascii=False))


def _plain_json(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _headers(properties: BasicProperties) -> list[tuple[str | None, str | None]] | None:
    if properties.headers is None:
        return None
    return [(_text(name), header_text(value)) for name, value in properties.headers.items()]


def _others(properties: BasicProperties) -> dict[str, Any]:
    named = properties._asdict()
    named["type"] = named["type_"]
    values = {name: named[name] for name in PROPERTIES.names}
    return {name: _text(value) if isinstance(value, str) else value for name, value in values.items()}


_MAKERS: dict[str, Callable[[BatchEnvelope, BasicProperties], Any]] = {
    "exchange": lambda envelope, _: envelope.exchange.decode("utf-8", "replace"),
    "routing_key": lambda envelope, _: envelope.routing_key.decode("utf-8", "replace"),
    "timestamp": lambda _, properties: _timestamp(properties.timestamp),
    "message_id": lambda _, properties: _text(properties.message_id),
    "content_type": lambda _, properties: _text(properties.content_type),
    "headers": lambda _, properties: _headers(properties),
    "properties": lambda _, properties: _others(properties),
}
