"""Publishing of Arrow batches with confirms, each row once also if the work is repeated. Needs no Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.client.client_events import Returned
from mirrormq.ranges import range_protocol
from mirrormq.ranges.error_reasons import OLDER_BATCH, TOO_MANY_CONTENTS
from mirrormq.ranges.range_limits import PRODUCER_EPOCHS_MAX, PRODUCERS_PER_VHOST_MAX
from mirrormq.spark.client.client_errors import ConnectionLost, RequestRefused
from mirrormq.spark.client.connection_pool import pooled
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import NO_ROUTE, RangeClient
from mirrormq.spark.client.spark_publisher import SparkPublisher
from mirrormq.spark.data_source_options import MIRRORMQ, SinkOptions
from mirrormq.spark.decode import REASON_HEADER
from mirrormq.spark.sink.digest import RowsDigest
from mirrormq.spark.sink.pace import PublishPace, PublishPacer
from mirrormq.spark.sink.row_encoder import PRODUCER_HEADER, RowEncoder, dead_letter
from mirrormq.spark.sink.spool import Spool
from mirrormq.wire.fields import Field
from mirrormq.wire.properties import decode_properties

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_BITS = 32
"""Bits for the row in a message's number; the batch is above them."""

GENERATION_DIGITS = 12
"""Hexadecimal digits of a producer's generation: 48 random bits."""

END_PATIENCE_S = 5.0
"""Time to retry the end of a write: the cluster only remembers its producers for longer without it."""


class ChangedRows(Exception):
    """Repeated batch with other rows than before, while the option failOnChangedRows is set."""


class PublishedRows(NamedTuple):
    """Messages that were published and confirmed."""

    messages: int
    changed: bool = False
    """Whether other rows were published before for the same batch and partition."""


PARTITIONS_MAX = PRODUCERS_PER_VHOST_MAX
"""Partitions of a batch whose repetition is recognised; the broker remembers as many producers."""


class SinkTask(NamedTuple):
    """Rows that are repeated together: one partition of one batch of one write."""

    write: str
    batch: int
    partition: int

    @property
    def producer(self) -> str:
        return f"{self.write}/{self.partition}"


def publish(
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    unit: SinkTask,
    *,
    keeps_connections: bool = False,
) -> PublishedRows:
    """Publish a partition and wait for its confirms. `keeps_connections` leaves them open for the next one.

    A queue recognises a repeated message by its producer and number: both must identify the same row. The
    task therefore reads all rows first and sends their digest to the broker. The broker replies with a
    producer name for exactly these rows in this order.
    """
    if options.broker != MIRRORMQ:
        return PublishedRows(_publish(options, batches, None, 1, keeps_connections))
    with Spool() as spool:
        seed = f"{options.exchange}\0{options.routing_key}\0{options.persistent}"
        digest = RowsDigest(seed)
        for batch in batches:
            digest.update(batch)
            spool.add(batch)
        if not digest.rows:
            return PublishedRows(0)
        if unit.partition >= PARTITIONS_MAX:
            return PublishedRows(_publish(options, spool.batches(), None, 1, keeps_connections))
        producer, epoch = _announce(options, unit, digest.hexdigest(), keeps_connections)
        if epoch and options.fail_on_changed_rows:
            raise ChangedRows(
                f"partition {unit.partition} of write '{unit.write}' has other rows, or another order of rows"
                f" than when its batch {unit.batch} was published before, and some of those may be in queues:"
                " sort rows within partitions, or set failOnChangedRows to false to publish these too"
            )
        first = (unit.batch << ROWS_BITS) + 1
        count = _publish(options, spool.batches(), producer, first, keeps_connections)
        return PublishedRows(count, bool(epoch))


def _announce(
    options: SinkOptions, unit: SinkTask, digest: str, keeps_connections: bool = False
) -> tuple[str | None, int]:
    """Return the producer's name for these rows, and its epoch: above 0 if the batch had other rows before.

    A broker without such requests, RabbitMQ for example, does not recognise repeated messages: no name.
    """
    generation = uuid.uuid4().hex[:GENERATION_DIGITS]
    client = (
        pooled(options.addresses, options.timeouts)
        if keeps_connections
        else RangeClient(Nodes(options.addresses, timeouts=options.timeouts))
    )
    try:
        with client as range_client:
            found = range_client.ask(
                range_protocol.batch(unit.producer, unit.batch, digest, generation)
            ).headers
    except RequestRefused as error:
        if error.code == NO_ROUTE:
            return None, 0
        if error.reason == TOO_MANY_CONTENTS:
            raise ChangedRows(
                f"partition {unit.partition} of write '{unit.write}' has published batch {unit.batch} with"
                f" {PRODUCER_EPOCHS_MAX} different rows or orders of rows, the maximum: sort rows within"
                " partitions, or set another writeId to publish them again"
            ) from None
        if error.reason != OLDER_BATCH:
            raise
        raise ChangedRows(
            f"batch {unit.batch} of write '{unit.write}' is older than what it has published: its checkpoint"
            " was replaced; set another writeId, or remove the option"
        ) from None
    return found["producer"], found["epoch"]


def end_write(options: SinkOptions, write: str) -> None:
    """Let the cluster forget the producers of a write that is complete and is never repeated.

    Without that, and with a broker that does not know the request, they stay until they were idle for a week.
    """
    if options.broker != MIRRORMQ:
        return
    with (
        suppress(RequestRefused, ConnectionLost),
        RangeClient(Nodes(options.addresses, END_PATIENCE_S, options.timeouts)) as range_client,
    ):
        range_client.ask(range_protocol.end(write))


def _publish(
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    producer: str | None,
    first_number: int,
    keeps_connection: bool = False,
) -> int:
    first = next(batches, None)
    if first is None:
        return 0
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
        return dead_letter(to, "unroutable", place, properties, returned.body, publisher.frame_max)

    nodes = Nodes(options.addresses, timeouts=options.timeouts)
    with SparkPublisher(nodes, on_return=unroutable, keeps_connection=keeps_connection) as publisher:
        rows = RowEncoder(options, producer, first_number, publisher.frame_max)
        pacer = PublishPacer(pace, publisher) if pace.rate or pace.speed else None
        for batch in chain((first,), batches):
            if pacer is None:
                for message in rows.messages(batch):
                    publisher.publish(message)
            else:
                for stamp, message in zip(_stamps(batch), rows.messages(batch), strict=True):
                    pacer.wait(stamp)
                    publisher.publish(message)
    return rows.count


def _stamps(batch: pa.RecordBatch) -> list[datetime | None]:
    if "timestamp" not in batch.schema.names:
        return [None] * batch.num_rows
    stamps: list[datetime | None] = batch.column("timestamp").to_pylist()
    return stamps
