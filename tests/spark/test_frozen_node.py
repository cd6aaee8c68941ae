"""A query whose first node, the master of its queue, is frozen continues on the others within seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pika
import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrormq.spark import register
from mirrormq.testing import Cluster
from tests.waiting import until

QUEUE = "frozen.query"
CONTINUES_S = 20.0
"""A quiet machine needs 4 to 6 s, most of them until the failure detector gives the node up. A query that
waits for the frozen node itself stands still for 60 s."""


@pytest.mark.timeout(240)
def test_a_query_goes_on_within_seconds_of_a_freeze(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    seen: dict[int, float] = {}

    def note(frame: DataFrame, batch: int) -> None:
        for row in frame.select("body").collect():
            seen[int(row.body)] = time.monotonic()

    with Cluster(nodes=3, mirror_all=True) as cluster:
        first = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
        first.channel().queue_declare(QUEUE, durable=True)
        other = pika.BlockingConnection(pika.URLParameters(cluster.uri(1)))
        channel = other.channel()
        uris = ",".join(cluster.uri(index) for index in range(3))
        messages = spark.readStream.format("mirrormq").options(uri=uris, queue=QUEUE).load()
        query = (
            messages.writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="100 milliseconds")
            .start()
        )
        try:
            for number in range(3):
                channel.basic_publish("", QUEUE, b"%d" % number)
                until(lambda number=number: number in seen or query.exception())  # type: ignore[misc]
            cluster.freeze(0)
            began_s = time.monotonic()
            channel.basic_publish("", QUEUE, b"3")
            until(lambda: 3 in seen or query.exception())
            assert query.exception() is None
            assert seen[3] - began_s < CONTINUES_S
            assert sorted(seen) == [0, 1, 2, 3]
        finally:
            cluster.thaw(0)
            query.stop()
