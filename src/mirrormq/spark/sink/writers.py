"""Writers of Spark: the work of each task, for one DataFrame or for each batch of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mirrormq.spark.data_source_options import SinkOptions
from mirrormq.spark.driver_log import warn
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.sink.row_encoder import check_columns, check_properties
from mirrormq.spark.sink.row_publishing import PARTITIONS_MAX, SinkTask, end_write, publish

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Properties that Spark sets for the tasks of a streaming query: equal after a restart from the
checkpoint."""

CHANGED_ROWS = (
    "{units} of the {partitions} partitions had other rows, or another order of rows, when {write} was"
    " published before: messages of theirs may be in the queues twice, none is missing; sort rows within"
    " partitions and keep the number of partitions to avoid it"
)


@dataclass
class Published(WriterCommitMessage):
    """Messages that a task has published and seen confirmed."""

    messages: int
    changed: bool = False
    """Whether other rows were published before for the same batch and partition."""


def check(schema: StructType, overwrite: bool, options: SinkOptions) -> None:
    """Refuse an invalid write before anything runs."""
    if overwrite:
        raise OptionError('messages can only be added: write with mode("append")')
    check_columns({field.name: field.dataType.simpleString() for field in schema}, options)
    for field in schema:
        if field.name == "properties" and isinstance(field.dataType, StructType):
            check_properties({each.name: each.dataType.simpleString() for each in field.dataType})


def warn_of_changes(write: str, published: Sequence[WriterCommitMessage | None]) -> None:
    """Warn on the driver if a repeated batch had other rows, or too many partitions to be recognised."""
    changed = sum(isinstance(each, Published) and each.changed for each in published)
    if changed:
        warn(CHANGED_ROWS.format(units=changed, partitions=len(published), write=write))
    if len(published) > PARTITIONS_MAX:
        warn(
            f"{write} has {len(published)} partitions, and a queue remembers {PARTITIONS_MAX}: if it is"
            " repeated messages are published twice; coalesce it to fewer partitions"
        )


class BatchWriter(DataSourceArrowWriter):
    """Writer of `df.write`: the broker knows it by its `writeId`; a job can be repeated under the same
    one."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(schema, overwrite, options)
        self._options = options
        self._write = options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = TaskContext.get()
        assert context is not None
        unit = SinkTask(self._write, self._options.batch_id, context.partitionId())
        return Published(*publish(self._options, iterator, unit, keeps_connections=True))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        warn_of_changes(f"write '{self._write}'", messages)
        self._end()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._end()

    def _end(self) -> None:
        """End a write whose random name no later write repeats."""
        if self._options.write_id is None:
            end_write(self._options, self._write)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of `df.writeStream`: known by the query's id, which its checkpoint keeps; numbered by batch and
    row."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        check(schema, overwrite, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise RuntimeError("Spark did not provide the ids of query and batch")
        unit = SinkTask(self._options.write_id or query, int(batch), context.partitionId())
        return Published(*publish(self._options, iterator, unit, keeps_connections=True))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        warn_of_changes(f"batch {batchId}", messages)
