"""Conversion of broker batches to Arrow record batches, column by column.

Sequence, flag and body differ from row to row; their buffers are used without copying. Exchange, routing key
and properties are decoded once for each distinct envelope, all envelopes together, and Arrow expands them
over the rows. Only requested columns are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.time_range import ALL_TIMES, TimeRange
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.source.arrays import RowColumns, array_of, bits, flags, numbers, text
from mirrormq.spark.source.property_columns import PropertyColumns

MILLISECONDS_MAX = (1 << 63) // 1000 - 1
"""Latest time that Arrow can hold in microseconds."""


class ArrowColumns:
    """Converter to record batches of one Arrow schema, which has the names of `row_schema.COLUMNS` or
    fewer."""

    def __init__(self, schema: pa.Schema, times: TimeRange = ALL_TIMES) -> None:
        self._schema = schema
        self._times = times
        """Ingestion times of the rows; others are left out."""

    def record_batch(self, queue: str, batch: RangeBatch) -> pa.RecordBatch:
        decoder = _BatchDecoder(queue, batch)
        made = pa.RecordBatch.from_arrays(list(map(decoder.column, self._schema)), schema=self._schema)
        return made.filter(_within(batch, self._times)) if self._times.limited else made


class _BatchDecoder:
    """Columns of one batch, each decoded when it is requested."""

    def __init__(self, queue: str, batch: RangeBatch) -> None:
        self._queue = queue
        self._batch = batch
        self._rows = RowColumns(batch.envelope_indexes, batch.envelope_count)

    @cached_property
    def _properties(self) -> PropertyColumns:
        return PropertyColumns(self._batch.properties_offsets, self._batch.properties)

    def column(self, field: pa.Field) -> pa.Array:
        """Return the column of all rows."""
        if field.name == "ingestion_time":
            return _times(self._batch, field.type)
        if field.name in _ROW_COLUMNS:
            return _ROW_COLUMNS[field.name](self._batch)
        if field.name == "queue":
            return self._rows.repeated(self._queue.encode())
        return self._rows.column(self._of_envelopes(field))

    def _of_envelopes(self, field: pa.Field) -> pa.Array:
        """Return a column with one value per envelope."""
        batch, kind = self._batch, field.type
        if field.name == "exchange":
            return _texts(batch.envelope_count, batch.exchange_offsets, batch.exchanges)
        if field.name == "routing_key":
            return _texts(batch.envelope_count, batch.routing_key_offsets, batch.routing_keys)
        if field.name == "properties":
            return pa.StructArray.from_arrays(list(map(self._property, kind)), fields=list(kind))
        return self._property(field)

    def _property(self, field: pa.Field) -> pa.Array:
        properties, kind = self._properties, field.type
        if pa.types.is_map(kind):
            return properties.headers(kind)
        if pa.types.is_timestamp(kind):
            return properties.timestamps(kind)
        if pa.types.is_integer(kind):
            return properties.octets(field.name, kind)
        return properties.texts("type_" if field.name == "type" else field.name)


def _texts(count: int, offsets: memoryview, data: memoryview) -> pa.Array:
    return text(array_of(pa.binary(), count, [None, offsets, data]))


def _within(batch: RangeBatch, times: TimeRange) -> pa.Array:
    """Return for each row whether its ingestion time is in a range."""
    if batch.ingested_ms is None:
        raise BrokerError(
            "the node gives no ingestion times: upgrade it, or omit startingTimestamp and endingTimestamp"
        )
    milliseconds = np.frombuffer(batch.ingested_ms, "<u8")
    wanted = (milliseconds >= np.uint64(times.from_ms)) & (milliseconds < np.uint64(times.to_ms))
    return array_of(pa.bool_(), len(batch), [None, bits(wanted)])


def _times(batch: RangeBatch, kind: pa.DataType) -> pa.Array:
    """Return the ingestion times in microseconds; null if the node does not know them."""
    if batch.ingested_ms is None:
        return pa.nulls(len(batch), kind)
    milliseconds = np.frombuffer(batch.ingested_ms, "<i8")
    valid = (milliseconds > 0) & (milliseconds <= MILLISECONDS_MAX)
    return numbers(np.where(valid, milliseconds, 0) * 1000, valid, kind)


_ROW_COLUMNS: dict[str, Callable[[RangeBatch], pa.Array]] = {
    "sequence": lambda batch: array_of(pa.int64(), len(batch), [None, batch.sequences]),
    "redelivered": lambda batch: flags(batch.redelivered),
    "body": lambda batch: array_of(pa.binary(), len(batch), [None, batch.body_offsets, batch.bodies]),
}
"""Columns whose values differ from row to row."""
