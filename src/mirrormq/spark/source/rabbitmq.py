"""Stream from a broker without leases, such as RabbitMQ: at-least-once.

Such a broker delivers a message once. The process beside the driver therefore consumes: it keeps deliveries
unacked, sends them to the tasks inside the partitions, and acknowledges when Spark requests the next batch.
If that process, the driver or the connection fails, the broker redelivers the messages, and an already
written batch gets them a second time. A batch is bounded, because it passes through the driver's memory.

An offset is `{"taken": n}`: the number of messages the query received so far, which is also their `sequence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import BatchEnvelope, RangeBatch
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.spark_consumer import PREFETCH_MAX, SparkConsumer, SparkDelivery
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.source.arrow import ArrowColumns
from mirrormq.spark.source.row_schema import columns

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES_MAX = 50_000
"""Most messages of a batch; below the limit of basic.qos."""

BYTES_MAX = 64 * 1024 * 1024
"""Most bytes of a batch: it is in the driver's memory and is sent to the executors."""

FIRST_WAIT_S = 0.5
WAIT_S = 0.05
"""Time to wait for each message after the first (`FIRST_WAIT_S`) before a batch is complete."""

Offset = dict[str, int]


class HeldPartition(InputPartition):
    """Unacked messages of one queue, encoded."""

    def __init__(self, queue: str, encoded: bytes) -> None:
        self.queue = queue
        self.encoded = encoded

    def __repr__(self) -> str:
        return f"HeldPartition({self.queue!r}, {len(self.encoded)} bytes)"


class RabbitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader in one Python process beside the driver; `read` runs in executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._messages_max = min(options.messages_max or MESSAGES_MAX, MESSAGES_MAX)
        self._consumer: SparkConsumer | None = None
        self._held: list[SparkDelivery] = []
        self._held_from = 0
        """Sequence of the first held message."""

    @property
    def consumer(self) -> SparkConsumer:
        if self._consumer is None:
            prefetch = min(self._messages_max, PREFETCH_MAX)
            self._consumer = SparkConsumer(
                Nodes(self._options.addresses, timeouts=self._options.timeouts),
                list(self._options.queues),
                prefetch,
            )
        return self._consumer

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"taken": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: RabbitMQ cannot tell present messages from later ones; the run ends when none
        arrive."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        self._settle(start["taken"])
        count = (
            min(limit.max_rows, self._messages_max) if isinstance(limit, ReadMaxRows) else self._messages_max
        )
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.bytes_max or BYTES_MAX
        if isinstance(limit, ReadAllAvailable):
            size = BYTES_MAX
        if not self._held:
            self._held = self.consumer.take(count, min(size, BYTES_MAX), FIRST_WAIT_S, WAIT_S)
            self._held_from = start["taken"]
        return {"taken": start["taken"] + len(self._held)}

    def _settle(self, taken: int) -> None:
        """Acknowledge all messages before this one."""
        if self._held and self._held_from + len(self._held) <= taken:
            self.consumer.acknowledge(self._held[-1].tag)
            self._held = []

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the held messages; none for a batch of an earlier process, whose messages are
        redelivered."""
        if self._held_from != start["taken"] or len(self._held) != end["taken"] - start["taken"]:
            return []
        numbered = list(enumerate(self._held, self._held_from))
        parts: list[InputPartition] = []
        size = -(-len(numbered) // self._options.partitions_min)
        for queue in self._options.queues:
            mine = [(number, message) for number, message in numbered if message.queue == queue]
            parts += [
                HeldPartition(queue, encode(mine[at : at + size])) for at in range(0, len(mine), max(1, size))
            ]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, HeldPartition)
        maker = ArrowColumns(to_arrow_schema(columns(self._options.columns), timezone="UTC"))
        yield maker.record_batch(partition.queue, RangeBatch(partition.encoded))

    def commit(self, end: Offset) -> None:
        self._settle(end["taken"])

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def encode(messages: Sequence[tuple[int, SparkDelivery]]) -> bytes:
    """Encode deliveries as a batch of columns in the format of MirrorMQ."""
    builder = BatchBuilder()
    builder.add(
        [number for number, _ in messages],
        [(_envelope(message), 1) for _, message in messages],
        bytes([message.redelivered for _, message in messages]),
        [bytes(message.body) for _, message in messages],
    )
    return builder.finish()


def _envelope(message: SparkDelivery) -> BatchEnvelope:
    exchange = message.exchange.encode("utf-8", "surrogateescape")
    return BatchEnvelope(exchange, message.routing_key.encode("utf-8", "surrogateescape"), message.properties)
