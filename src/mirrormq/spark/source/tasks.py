"""Executor side of the source: read a partition's messages and pass them to Spark as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_address import preferring
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.range_reader import read
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.row_schema import columns

if TYPE_CHECKING:
    import pyarrow as pa


class DataLoss(Exception):
    """Messages that a batch requires are missing."""


def read_partition(options: SourceOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the available messages of a partition; raises DataLoss if a required one is missing."""
    part = partition.part
    maker = ArrowColumns(to_arrow_schema(columns(options.include_properties), timezone="UTC"))
    addresses = preferring(options.addresses, partition.index)
    if partition.order:
        addresses = tuple(options.addresses[place] for place in partition.order)
    nodes = Nodes(addresses, timeouts=options.timeouts)
    count = 0
    with RangeClient(nodes) as range_client:
        size = part.bytes / max(1, part.messages)
        try:
            for batch in read(range_client, part.queue, part.spans, size, part.queue_id):
                count += batch.rows
                if batch.rows:
                    yield maker.record_batch(part.queue, batch)
        except RequestRefused as error:
            if error.reason != NO_QUEUE:
                raise
    if part.complete and count != part.messages and options.fail_on_data_loss:
        raise DataLoss(
            f"{part.messages - count} leased messages of queue '{part.queue}' are gone, its lease was"
            " released or has expired or the queue was deleted: set failOnDataLoss to false to go on with"
            " what there is"
        )
