"""What runs in executors: read a partition's messages and hand them to Spark as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

from mirrormq.ranges.reasons import NO_QUEUE
from mirrormq.spark.client.address import preferring
from mirrormq.spark.client.asking import Asker
from mirrormq.spark.client.errors import Refused
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.client.reading import read
from mirrormq.spark.options import SourceOptions
from mirrormq.spark.source.arrow import Columns
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.schema import columns

if TYPE_CHECKING:
    import pyarrow as pa


class DataLoss(Exception):
    """Messages are gone that should be there."""


def read_partition(options: SourceOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """The messages of a partition, as far as they are there; DataLoss if one is missing that must not."""
    part = partition.part
    maker = Columns(to_arrow_schema(columns(options.include_properties), timezone="UTC"))
    addresses = preferring(options.addresses, partition.index)
    if partition.order:
        addresses = tuple(options.addresses[place] for place in partition.order)
    nodes = Nodes(addresses, timeouts=options.timeouts)
    count = 0
    with Asker(nodes) as asker:
        size = part.bytes / max(1, part.messages)
        try:
            for batch in read(asker, part.queue, part.stretches, size, part.queue_id):
                count += batch.rows
                if batch.rows:
                    yield maker.record_batch(part.queue, batch)
        except Refused as error:
            if error.reason != NO_QUEUE:
                raise
    if part.complete and count != part.messages and options.fail_on_data_loss:
        raise DataLoss(
            f"{part.messages - count} leased messages of queue '{part.queue}' are gone, its lease was"
            " released or has expired or the queue was deleted: set failOnDataLoss to false to go on with"
            " what there is"
        )
