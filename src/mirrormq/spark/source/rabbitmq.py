"""A stream from a broker without leases, such as RabbitMQ: each message at least once.

There nothing can be read twice, so the process beside the driver consumes: it holds what it was given,
unacknowledged, hands it to the tasks inside the partitions, and acknowledges when Spark asks for the next
batch. If that process, the driver or the connection dies, the broker gives the messages to the next
consumer, and a batch that had already been written has them a second time. What a batch may hold is
bounded, because it passes through the driver's memory.

An offset is `{"taken": n}`: how many messages the query was given so far, which is also their `sequence`.
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
"""Of a batch; less than basic.qos can say."""

BYTES_MAX = 64 * 1024 * 1024
"""Of a batch: it is in the driver's memory and travels to the executors."""

FIRST_WAIT_S = 0.5
WAIT_S = 0.05
"""How long the first message, and each further one, is waited for before a batch is as large as it gets."""

Offset = dict[str, int]


class HeldPartition(InputPartition):
    """Messages of one queue, encoded."""

    def __init__(self, queue: str, encoded: bytes) -> None:
        self.queue = queue
        self.encoded = encoded

    def __repr__(self) -> str:
        return f"HeldPartition({self.queue!r}, {len(self.encoded)} bytes)"


class RabbitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Runs in one Python process beside the driver, but for `read`, which runs in executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._messages_max = min(options.messages_max or MESSAGES_MAX, MESSAGES_MAX)
        self._consumer: SparkConsumer | None = None
        self._held: list[SparkDelivery] = []
        self._held_from = 0
        """The sequence of the first of them."""

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
        """A RabbitMQ cannot say what is there now and what came later: it ends when nothing comes."""

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
        """All messages before this one are processed."""
        if self._held and self._held_from + len(self._held) <= taken:
            self.consumer.acknowledge(self._held[-1].tag)
            self._held = []

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The messages that are held; none for a batch of an earlier life, whose messages come again."""
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
        maker = ArrowColumns(to_arrow_schema(columns(self._options.include_properties), timezone="UTC"))
        yield maker.record_batch(partition.queue, RangeBatch(partition.encoded))

    def commit(self, end: Offset) -> None:
        self._settle(end["taken"])

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def encode(messages: Sequence[tuple[int, SparkDelivery]]) -> bytes:
    """Deliveries as a batch of columns, as MirrorMQ would have sent it."""
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
