"""Base of all queue streams: the driver's connection, limits of a batch, and the tasks' reads."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.driver_log import warn
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.plan import PartitionPart, RangePartition, partitions, shares
from mirrormq.spark.source.queue_extents import QueueExtents
from mirrormq.spark.source.tasks import DataLoss, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, Any]


class QueueShare(NamedTuple):
    """Limit of a batch for one queue."""

    messages: int
    bytes: int | None
    """None: no limit."""

    def expected(self, extent: QueueExtent) -> int:
        """Return the number of mean-sized messages in the share; at least one, if any is requested."""
        if self.bytes is None:
            return self.messages
        return min(self.messages, max(1, int(self.bytes / max(extent.mean_bytes, 1.0))))


class QueueStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader in one Python process beside the driver; `read` runs in executors."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._queues: QueueExtents | None = None
        self._deleted: set[str] = set()
        """Named queues whose deletion was reported."""
        self._batch_s = time.monotonic()
        """Time of the last batch, or of the start."""

    @property
    def queues(self) -> QueueExtents:
        if self._queues is None:
            self._queues = QueueExtents(self.options)
        return self._queues

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.messages_max is not None:
            return ReadMaxRows(self.options.messages_max)
        if self.options.bytes_max is not None:
            return ReadMaxBytes(self.options.bytes_max)
        return ReadAllAvailable()

    def shared(
        self, extents: Sequence[QueueExtent], wanted: Sequence[int], limit: ReadLimit
    ) -> list[QueueShare]:
        """Divide the limit among queues with `wanted` messages each."""
        if isinstance(limit, ReadAllAvailable):
            return [QueueShare(count, None) for count in wanted]
        counts = shares(wanted, limit.max_rows) if isinstance(limit, ReadMaxRows) else wanted
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.bytes_max
        if bytes_max is None:
            return [QueueShare(count, None) for count in counts]
        sizes = [
            max(1, int(count * extent.mean_bytes)) if count else 0
            for count, extent in zip(counts, extents, strict=True)
        ]
        given = shares(sizes, bytes_max)
        spare = max(0, bytes_max - sum(given)) // max(1, len(given))
        return [QueueShare(count, size + spare) for count, size in zip(counts, given, strict=True)]

    def waits_for_more(self, messages: int) -> bool:
        """Whether a batch of so few messages is postponed (`minMessagesPerTrigger`)."""
        now_s = time.monotonic()
        if 0 < messages < self.options.messages_min and now_s - self._batch_s < self.options.delay_max_s:
            return True
        if messages:
            self._batch_s = now_s
        return False

    def lost(self, what: str) -> None:
        """Report that messages are lost or may repeat: fail, or print a warning and continue."""
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{what}: set failOnDataLoss to false to go on with what there is")
        warn(what)

    def present(self, known: Collection[str] = ()) -> dict[str, QueueExtent]:
        """Return the existing queues to read. A named queue that is missing is an error, or waited for.

        `known` are queues that existed before: a missing one was deleted.
        """
        extents = self.queues.extents()
        for name in self.options.queues:
            if name in extents or name in self._deleted:
                continue
            if name in known:
                self.lost(f"queue '{name}' was deleted")
                self._deleted.add(name)
            elif not self.options.wait_for_queues:
                raise OptionError(
                    f"there is no queue '{name}': declare it, correct the name, or set missingQueues to wait"
                )
        self._deleted -= extents.keys()
        return extents

    def cut(self, parts: Sequence[PartitionPart], at_least: int | None = None) -> list[InputPartition]:
        """Cut a batch into tasks; `at_least` is the number in the batch's offset."""
        return partitions(parts, at_least or self.options.partitions_min, self.queues.order)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_partition(self.options, partition)

    def stop(self) -> None:
        if self._queues is not None:
            self._queues.close()
