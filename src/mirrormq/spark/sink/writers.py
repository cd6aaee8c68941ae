"""Writes of Spark's: what runs in each task, for one DataFrame or for each batch of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mirrormq.spark.client.connection import FRAME_MAX_BYTES
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.client.publishing import Publisher
from mirrormq.spark.options import MIRRORMQ, OptionError, SinkOptions
from mirrormq.spark.sink.pace import Pace, Pacer
from mirrormq.spark.sink.rows import Rows, check_columns, check_properties

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells the tasks of a streaming query: the same after a restart from the checkpoint."""

ROWS_BITS = 32
"""A message's number is its batch, shifted by so many bits, and its row in the partition."""


@dataclass
class Published(WriterCommitMessage):
    """What a task has published and seen confirmed."""

    messages: int


def check(schema: StructType, overwrite: bool, options: SinkOptions) -> None:
    """Before anything runs."""
    if overwrite:
        raise OptionError('messages can only be added: write with mode("append")')
    check_columns({field.name: field.dataType.simpleString() for field in schema}, options)
    for field in schema:
        if field.name == "properties" and isinstance(field.dataType, StructType):
            check_properties({each.name: each.dataType.simpleString() for each in field.dataType})


def publish(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], write: str, first_number: int, partition: int
) -> Published:
    """Publish a partition and wait for its confirms."""
    producer = f"{write}/{partition}" if options.broker == MIRRORMQ else None
    rows = Rows(options, producer, first_number, FRAME_MAX_BYTES)
    pace = Pace(options.rate, options.speed, options.speed_origin_s, options.speed_start_s)
    with Publisher(Nodes(options.addresses)) as publisher:
        pacer = Pacer(pace, publisher) if pace.rate or pace.speed else None
        for batch in batches:
            if pacer is None:
                for message in rows.messages(batch):
                    publisher.publish(message)
            else:
                for stamp, message in zip(_stamps(batch), rows.messages(batch), strict=True):
                    pacer.wait(stamp)
                    publisher.publish(message)
    return Published(rows.count)


def _stamps(batch: pa.RecordBatch) -> list[datetime | None]:
    if "timestamp" not in batch.schema.names:
        return [None] * batch.num_rows
    stamps: list[datetime | None] = batch.column("timestamp").to_pylist()
    return stamps


class Writer(DataSourceArrowWriter):
    """`df.write`: known to the broker by its `writeId`, so that a job can be run again under the same one."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(schema, overwrite, options)
        self._options = options
        self._write = options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = TaskContext.get()
        assert context is not None
        return publish(self._options, iterator, self._write, 1, context.partitionId())


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: known by the query's id, which its checkpoint keeps; numbered by batch and row."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(schema, overwrite, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise RuntimeError("Spark did not say which batch of which query this is")
        write = self._options.write_id or query
        return publish(self._options, iterator, write, (int(batch) << ROWS_BITS) + 1, context.partitionId())
