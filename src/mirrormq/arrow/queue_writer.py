"""Writer of Arrow data to an exchange, with confirms."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from mirrormq.arrow.message_schema import plain_type, type_name
from mirrormq.spark.data_source_options import SinkOptions, sink_options
from mirrormq.spark.sink.row_encoder import check_columns, check_properties
from mirrormq.spark.sink.row_publishing import SinkTask, end_write, publish


class ArrowStream(Protocol):
    """Anything that exports Arrow data: pyarrow tables and readers, Polars frames, DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def write(
    uri: str,
    data: ArrowStream,
    *,
    exchange: str | None = None,
    routing_key: str | None = None,
    write_id: str | None = None,
    **options: str,
) -> int:
    """Publish each row as a message and wait for the confirms; return the number of messages.

    Columns and `options` are those of the Spark sink. With a `write_id` a repeated write of the same rows
    publishes nothing twice.
    """
    place = {"exchange": exchange, "routingKey": routing_key, "writeId": write_id}
    given = {name: value for name, value in place.items() if value is not None}
    checked = sink_options({"uri": uri, **options, **given})
    reader = pa.RecordBatchReader.from_stream(data)
    schema = pa.schema([(field.name, plain_type(field.type)) for field in reader.schema])
    _check(schema, checked)
    unit = SinkTask(checked.write_id or uuid.uuid4().hex, checked.batch_id, 0)
    try:
        return publish(checked, _plain(reader, schema), unit).messages
    finally:
        if checked.write_id is None:
            end_write(checked, unit.write)


def _check(schema: pa.Schema, options: SinkOptions) -> None:
    check_columns({field.name: type_name(field.type) for field in schema}, options)
    for field in schema:
        if field.name == "properties":
            check_properties({each.name: type_name(each.type) for each in field.type})


def _plain(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
