"""Writers of Spark: the work of each task, for one DataFrame or for each batch of a stream."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from mirrormq.client.client_events import Returned
from mirrormq.ranges import range_protocol
from mirrormq.ranges.error_reasons import OLDER_BATCH
from mirrormq.ranges.range_limits import PRODUCERS_PER_VHOST_MAX
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import NO_ROUTE, RangeClient
from mirrormq.spark.client.spark_publisher import SparkPublisher
from mirrormq.spark.data_source_options import MIRRORMQ, OptionError, SinkOptions
from mirrormq.spark.decode import REASON_HEADER
from mirrormq.spark.sink.digest import RowsDigest
from mirrormq.spark.sink.pace import PublishPace, PublishPacer
from mirrormq.spark.sink.row_encoder import (
    PRODUCER_HEADER,
    RowEncoder,
    check_columns,
    check_properties,
    dead_letter,
)
from mirrormq.spark.sink.spool import Spool
from mirrormq.wire.fields import Field
from mirrormq.wire.frames import FRAME_MAX_BYTES
from mirrormq.wire.properties import decode_properties

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Properties that Spark sets for the tasks of a streaming query: equal after a restart from the
checkpoint."""

ROWS_BITS = 32
"""Bits for the row in a message's number; the batch is above them."""

GENERATION_DIGITS = 12
"""Hexadecimal digits of a producer's generation: 48 random bits."""

PARTITIONS_MAX = PRODUCERS_PER_VHOST_MAX
"""Partitions of a batch whose repetition is recognised; the broker remembers as many producers."""


CHANGED_ROWS = (
    "{units} of the {partitions} partitions had other rows, or another order of rows, when {write} was"
    " published before: messages of theirs may be in the queues twice, none is missing; sort rows within"
    " partitions and keep the number of partitions to avoid it"
)


class ChangedRows(Exception):
    """Repeated batch with other rows than before, while the option failOnChangedRows is set."""


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


class SinkTask(NamedTuple):
    """Rows that are repeated together: one partition of one batch of one write."""

    write: str
    batch: int
    partition: int

    @property
    def producer(self) -> str:
        return f"{self.write}/{self.partition}"


def publish(options: SinkOptions, batches: Iterator[pa.RecordBatch], unit: SinkTask) -> Published:
    """Publish a partition and wait for its confirms.

    A queue recognises a repeated message by its producer and number: both must identify the same row. The
    task therefore reads all rows first and sends their digest to the broker. The broker replies with a
    producer name for exactly these rows in this order.
    """
    if options.broker != MIRRORMQ:
        return Published(_publish(options, batches, None, 1))
    with Spool() as spool:
        seed = f"{options.exchange}\0{options.routing_key}\0{options.persistent}"
        digest = RowsDigest(seed)
        for batch in batches:
            digest.update(batch)
            spool.add(batch)
        if not digest.rows:
            return Published(0)
        producer, epoch = _announce(options, unit, digest.hexdigest())
        if epoch and options.fail_on_changed_rows:
            raise ChangedRows(
                f"partition {unit.partition} of write '{unit.write}' has other rows, or another order of rows"
                f" than when its batch {unit.batch} was published before, and some of those may be in queues:"
                " sort rows within partitions, or set failOnChangedRows to false to publish these too"
            )
        first = (unit.batch << ROWS_BITS) + 1
        return Published(_publish(options, spool.batches(), producer, first), bool(epoch))


def _announce(options: SinkOptions, unit: SinkTask, digest: str) -> tuple[str | None, int]:
    """Return the producer's name for these rows, and its epoch: above 0 if the batch had other rows before.

    A broker without such requests, RabbitMQ for example, does not recognise repeated messages: no name.
    """
    generation = uuid.uuid4().hex[:GENERATION_DIGITS]
    try:
        with RangeClient(Nodes(options.addresses, timeouts=options.timeouts)) as range_client:
            found = range_client.ask(
                range_protocol.batch(unit.producer, unit.batch, digest, generation)
            ).headers
    except RequestRefused as error:
        if error.code == NO_ROUTE:
            return None, 0
        if error.reason != OLDER_BATCH:
            raise
        raise ChangedRows(
            f"batch {unit.batch} of write '{unit.write}' is older than what it has published: its checkpoint"
            " was replaced; set another writeId, or remove the option"
        ) from None
    return found["producer"], found["epoch"]


def _publish(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], producer: str | None, first_number: int
) -> int:
    rows = RowEncoder(options, producer, first_number, FRAME_MAX_BYTES)
    pace = PublishPace(options.rate, options.speed, options.speed_origin_s, options.speed_start_s)

    def unroutable(returned: Returned) -> bytes | None:
        place, to = (returned.exchange, returned.routing_key), options.dead_letter_place
        if to is None:
            return None
        properties = decode_properties(returned.properties, 0)
        if place == to and REASON_HEADER in (properties.headers or {}):
            return None  # the dead-letter exchange itself is unroutable
        if producer is not None:
            # A message returns when later rows are already published, and a queue takes a lower number for a
            # repeated one. Returned messages therefore have a separate producer; they return in order.
            headers = {**(properties.headers or {}), PRODUCER_HEADER: Field("S", f"{producer}/u".encode())}
            properties = properties._replace(headers=headers)
        return dead_letter(to, "unroutable", place, properties, returned.body, FRAME_MAX_BYTES)

    nodes = Nodes(options.addresses, timeouts=options.timeouts)
    with SparkPublisher(nodes, on_return=unroutable) as publisher:
        pacer = PublishPacer(pace, publisher) if pace.rate or pace.speed else None
        for batch in batches:
            if pacer is None:
                for message in rows.messages(batch):
                    publisher.publish(message)
            else:
                for stamp, message in zip(_stamps(batch), rows.messages(batch), strict=True):
                    pacer.wait(stamp)
                    publisher.publish(message)
    return rows.count


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


def warn(text: str) -> None:
    """Print a line for the driver's log: Python of a data source has no logger of Spark."""
    print(f"WARN mirrormq: {text}", file=sys.stderr, flush=True)


def _stamps(batch: pa.RecordBatch) -> list[datetime | None]:
    if "timestamp" not in batch.schema.names:
        return [None] * batch.num_rows
    stamps: list[datetime | None] = batch.column("timestamp").to_pylist()
    return stamps


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
        return publish(self._options, iterator, SinkTask(self._write, 0, context.partitionId()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        warn_of_changes(f"write '{self._write}'", messages)


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
        return publish(self._options, iterator, unit)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        warn_of_changes(f"batch {batchId}", messages)
