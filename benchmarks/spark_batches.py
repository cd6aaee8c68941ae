"""Fixed cost of a micro-batch: of our source beside Spark's own `rate` source, in one session.

Each batch has one message per queue and goes to Spark's `noop` sink. The times are Spark's own, from the
progress of the query: `triggerExecution` is the whole batch; `latestOffset` is the part in which our source
settles the batch before and takes the messages of the next one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pika

from benchmarks import spark_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUEUES = 100
WARM_UP = 5
"""Batches before those that are measured; the first ones also start Python processes."""
DEADLINE_S = 60.0


class BatchCost(NamedTuple):
    """Medians in milliseconds."""

    one_queue_ms: float
    rate_ms: float
    """Batch of one row of Spark's own source."""
    many_queues_ms: float
    takes_ms: float
    """Settlements and takes of a batch of many queues."""


def measure(spark: SparkSession, uri: str, batches: int, directory: Path) -> BatchCost:
    """Measure each kind of batch."""
    names = [f"batches.{number:03}" for number in range(QUEUES)]
    for name in names:
        spark_lines.fill(uri, name, 0)
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    channel = connection.channel()

    def one_each(queues: list[str]) -> Callable[[], None]:
        def publish() -> None:
            for queue in queues:
                channel.basic_publish("", queue, b"x")
            channel.queue_declare(queues[0], passive=True)

        return publish

    def read(queues: list[str]) -> DataFrame:
        return spark.readStream.format("mirrormq").options(uri=uri, queues=",".join(queues)).load()

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with _running(rate, directory / "rate") as query:
        rate_ms, _ = _medians(query, lambda: None, batches)
    with _running(read(names[:1]), directory / "one") as query:
        one_ms, _ = _medians(query, one_each(names[:1]), batches)
    with _running(read(names), directory / "many") as query:
        many_ms, takes_ms = _medians(query, one_each(names), batches)
    connection.close()
    return BatchCost(one_ms, rate_ms, many_ms, takes_ms)


@contextmanager
def _running(frame: DataFrame, directory: Path) -> Iterator[StreamingQuery]:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(directory))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        yield query
    finally:
        query.stop()


def _medians(query: StreamingQuery, publish: Callable[[], None], batches: int) -> tuple[float, float]:
    """Return the medians of the whole batch and of its offset."""
    found: dict[int, tuple[float, float]] = {}
    while len(found) < WARM_UP + batches:
        before = len(found)
        publish()
        deadline_s = time.monotonic() + DEADLINE_S
        while len(found) == before:
            if query.exception() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the query makes no batches: {query.exception()}")
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    took = progress["durationMs"]
                    found[progress["batchId"]] = took["triggerExecution"], took["latestOffset"]
            time.sleep(0.01)
    measured = [found[number] for number in sorted(found)[WARM_UP:]]
    whole, offset = zip(*measured, strict=True)
    return statistics.median(whole), statistics.median(offset)
