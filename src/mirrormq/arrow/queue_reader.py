"""Reader of queues as a stream of record batches. It changes nothing: messages stay in their queues.

Range reads return some thousand messages at a time, hence memory is bounded whatever the queues hold. The end
of each queue is fixed when `read` is called; messages that consumers acknowledge meanwhile are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from mirrormq.arrow.message_schema import schema_of
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.sequences.spans import Span
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.range_reader import QueueRange, read_all
from mirrormq.spark.data_source_options import SourceOptions, source_options
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.queue_extents import QueueExtents, ending, starting


def read(
    uri: str,
    *,
    queue: str | None = None,
    queues: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    **options: str,
) -> pa.RecordBatchReader:
    """Return the messages of queues, queue by queue in their order, as a stream of record batches.

    `columns` limits the columns; without `body` no bodies travel. `options` are those of the Spark source:
    `queuePattern`, `startingOffsets`, `endingOffsets`, `startingTimestamp`, `endingTimestamp`,
    `passwordFile`, `tlsCaFile` and others.
    """
    given = {"uri": uri, **options}
    if queue is not None:
        given["queue"] = queue
    if queues is not None:
        given["queues"] = ",".join(queues)
    if columns is not None:
        given["columns"] = ",".join(columns)
    checked = source_options(given, streaming=False)
    schema = schema_of(checked.columns)
    extents = QueueExtents(checked)
    try:
        found = extents.extents()
        for name in checked.queues:
            if name not in found:
                raise OptionError(f"there is no queue '{name}': declare it, or correct the name")
    except BaseException:
        extents.close()
        raise
    ranges = [_range(checked, name, extent) for name, extent in found.items()]
    maker = ArrowColumns(schema, checked.times)
    return pa.RecordBatchReader.from_batches(schema, _batches(extents, ranges, maker))


def _range(options: SourceOptions, name: str, extent: QueueExtent) -> QueueRange:
    """Return what to read of a queue."""
    first = max(starting(options, name, extent), extent.first)
    end = min(ending(options, name, extent), extent.next)
    return QueueRange(
        name,
        [Span(first, end - first)] if first < end else [],
        extent.mean_bytes,
        extent.id,
        without_bodies="body" not in options.columns,
        with_ingestion_times="ingestion_time" in options.columns or options.times.limited,
        times=options.times,
    )


def _batches(
    extents: QueueExtents, ranges: Sequence[QueueRange], maker: ArrowColumns
) -> Iterator[pa.RecordBatch]:
    try:
        for each, found in read_all(extents.range_client, ranges):
            if isinstance(found, RequestRefused):
                if found.reason != NO_QUEUE:
                    raise found
            elif found.rows:
                yield maker.record_batch(each.queue, found)
    finally:
        extents.close()
