"""Executor side of the source: read a partition's messages and pass them to Spark as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.connection_pool import pooled
from mirrormq.spark.client.node_address import preferring
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.range_reader import QueueRange, read_all
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.driver_log import warn
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.plan import PartitionPart, RangePartition
from mirrormq.spark.source.row_schema import columns

if TYPE_CHECKING:
    import pyarrow as pa


class DataLoss(Exception):
    """Messages that a batch requires are missing."""


def read_partition(options: SourceOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the available messages of a partition; raises DataLoss if a required one is missing."""
    maker = ArrowColumns(to_arrow_schema(columns(options.columns), timezone="UTC"), options.times)
    by_order: dict[tuple[int, ...], list[PartitionPart]] = {}
    for part in partition.parts:
        by_order.setdefault(partition.orders.get(part.queue, ()), []).append(part)
    for order, parts in by_order.items():
        addresses = preferring(options.addresses, partition.index)
        if order:
            addresses = tuple(options.addresses[place] for place in order)
        with pooled(addresses, options.timeouts) as range_client:
            yield from _read_parts(range_client, maker, parts, options)


def _read_parts(
    range_client: RangeClient, maker: ArrowColumns, parts: Sequence[PartitionPart], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    ranges = [
        QueueRange(
            part.queue,
            part.spans,
            part.bytes / max(1, part.messages),
            part.queue_id,
            without_bodies="body" not in options.columns,
            with_ingestion_times="ingestion_time" in options.columns or options.times.limited,
            times=options.times,
        )
        for part in parts
    ]
    counts = dict.fromkeys(map(id, ranges), 0)
    for each, found in read_all(range_client, ranges):
        if isinstance(found, RequestRefused):
            if found.reason != NO_QUEUE:
                raise found
        elif found.rows:
            counts[id(each)] += found.rows
            yield maker.record_batch(each.queue, found)
    for part, each in zip(parts, ranges, strict=True):
        missing = part.messages - counts[id(each)]
        if part.complete and missing:
            _lost(options, f"{missing} leased messages of queue '{part.queue}' are gone: {_CAUSES}")


_CAUSES = "its lease was released or has expired, the queue was deleted, or no disk has a good copy of them"


def _lost(options: SourceOptions, what: str) -> None:
    """Report missing messages: fail, or print a warning and continue."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}; set failOnDataLoss to false to go on with what there is")
    warn(what)
