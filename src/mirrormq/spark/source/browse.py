"""Browsing: range reads without consuming, once or as a stream of new messages.

An offset is `{queue: {"next": sequence, "id": queue's id, "from": sequence, "bytes": number, "partitions":
number}}`: the first sequence of the next batch, and that of the batch which ends there. Spark does not store
the initial offset of a query. Without `from` a repeated first batch would begin at what is `latest` by then.
`bytes` is the estimated size of the batch, and `partitions` the option `minPartitions`, both when the offset
was made: a repeated batch is cut as before, whatever the queue and the option are now.

A batch is a range of sequences, and reading it again gives the same messages as long as no consumer has taken
them meanwhile. Messages that were consumed meanwhile are missing, and that is no loss. A deleted queue is
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.sequences.spans import Span
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.option_reader import LATEST, OptionError
from mirrormq.spark.source.plan import PartitionPart, RangePartition, partitions
from mirrormq.spark.source.pushed_filters import PushedFilters
from mirrormq.spark.source.queue_extents import QueueExtents, ending, starting
from mirrormq.spark.source.queue_stream import Offset, QueueStream
from mirrormq.spark.source.tasks import read_partition

if TYPE_CHECKING:
    import pyarrow as pa


def part_of(queue: str, extent: QueueExtent | None, from_: int, to: int) -> PartitionPart:
    """Return the messages [from, to) of a queue, as a part of a batch."""
    if extent is not None:
        # Clip to the queue: consumed messages and future ones need no request.
        from_, to = max(from_, extent.first), min(to, extent.next)
    count = max(0, to - from_)
    size = int(extent.mean_bytes * count) if extent is not None else 0
    return PartitionPart(
        queue, (Span(from_, count),) if count else (), size, False, 0 if extent is None else extent.id
    )


class BatchReader(DataSourceReader):
    """Reader of `spark.read`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        queues = QueueExtents(options)
        try:
            extents = queues.extents()
            for name in self._options.queues:
                if name not in extents:
                    raise OptionError(f"there is no queue '{name}': declare it, or correct the name")
            parts = [
                part_of(name, extent, self._start(name, extent), self._end(name, extent))
                for name, extent in extents.items()
                if self._filters.lets_through(name)
            ]
            return partitions(parts, options.partitions_min, queues.order)
        finally:
            queues.close()

    def _start(self, name: str, extent: QueueExtent) -> int:
        return max(self._filters.first, starting(self._options, name, extent))

    def _end(self, name: str, extent: QueueExtent) -> int:
        return min(self._filters.end, ending(self._options, name, extent))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's placeholder for no partitions
            return iter(())
        return read_partition(self._options, partition)


class FilteringReader(BatchReader):
    """Reader of `spark.read` that Spark offers filters to."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        left = [each for each in filters if not self._filters.accept(each)]
        self._options = replace(self._options, times=self._options.times.overlap(self._filters.times))
        return left


class BrowseReader(QueueStream):
    """Reader of `spark.readStream` with mode browse."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._target: dict[str, int] | None = None
        """End sequences with AvailableNow."""

    def initialOffset(self) -> Offset:  # noqa: N802
        return {
            name: {"next": starting(self.options, name, extent), "id": extent.id}
            for name, extent in self.present().items()
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {name: extent.next for name, extent in self.queues.extents().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        extents = self.present(start)
        for name in start:
            if name not in extents and name not in self.options.queues:
                self.lost(f"queue '{name}' was deleted")
        begins = {name: self._begin(name, extent, start) for name, extent in extents.items()}
        ends = {
            name: extent.next if self._target is None else min(extent.next, self._target.get(name, 0))
            for name, extent in extents.items()
        }
        wanted = [max(0, ends[name] - max(begins[name], extents[name].first)) for name in extents]
        if self._target is None and self.waits_for_more(sum(wanted)):
            return start
        allowed = self.shared(list(extents.values()), wanted, limit)
        found = {name: at for name, at in start.items() if name in extents}
        for (name, extent), want, share in zip(extents.items(), wanted, allowed, strict=True):
            count = min(want, share.expected(extent))
            if count or name not in start or start[name]["id"] != extent.id:
                begin = max(begins[name], extent.first) if want else begins[name]
                found[name] = {
                    "next": begin + count, "id": extent.id, "from": begin,
                    "bytes": int(extent.mean_bytes * count), "partitions": self.options.partitions_min,
                }  # fmt: skip
        return dict(sorted(found.items()))

    def _begin(self, name: str, extent: QueueExtent, start: Offset) -> int:
        at = start.get(name)
        if at is None:
            # `latest` is meant for the queues that existed when the query began.
            return extent.first if self.options.starting == LATEST else starting(self.options, name, extent)
        if at["id"] != extent.id:
            self.lost(f"queue '{name}' was deleted and declared again")
            return extent.first
        return int(at["next"])

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        return {name: {"next": extent.next} for name, extent in self.queues.extents().items()}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        parts = []
        at_least: int | None = None
        extents = self.queues.extents_of(list(end))
        for name, at in end.items():
            extent = extents.get(name)
            if start.get(name) == at:
                continue
            if extent is not None and extent.id == at["id"]:
                parts.append(_part_between(name, extent, start, at))
                at_least = at.get("partitions")
            else:
                self.lost(f"queue '{name}' is gone")
        return self.cut(parts, at_least)


def _part_between(name: str, extent: QueueExtent, start: Offset, at: Offset) -> PartitionPart:
    """Return the messages of a queue in the batch that ends at `at`."""
    if "bytes" in at:
        count = at["next"] - at["from"]
        return PartitionPart(name, (Span(at["from"], count),) if count else (), at["bytes"], False, at["id"])
    # Offsets of earlier releases have no size, and those before them no `from`.
    before = start.get(name)
    default = before["next"] if before is not None and before["id"] == at["id"] else 0
    return part_of(name, extent, int(at.get("from", default)), at["next"])
