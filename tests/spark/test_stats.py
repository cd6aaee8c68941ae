"""Traces and events are counted in windows, once; the latest windows are in a summary."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pika
from pyspark.sql import SparkSession

from mirrormq.spark.jobs.stats import Options, stats
from tests.brokers.mirrormq import MirrorMQ

COUNT = 20


def test_publishes_and_deliveries_are_counted(
    spark: SparkSession, mirrormq: MirrorMQ, tmp_path: Path
) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    options = Options(uri, str(tmp_path), window="1s", once=True, queue="stats.test")
    stats(spark, options)  # from now on traces are kept
    mirrormq.control("trace_on")
    try:
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(COUNT):
            stamp = pika.BasicProperties(headers={"timestamp_in_ms": int(time.time() * 1000)})
            channel.basic_publish("", queue, b"x" * 50, stamp)
        for _ in range(COUNT):
            assert channel.basic_get(queue, auto_ack=True)[0] is not None
        assert stats(spark, options) >= 2 * COUNT
        time.sleep(1.1)
        channel.basic_publish("", queue, b"later: its window ends the one before")
        stats(spark, options)
        connection.close()
    finally:
        mirrormq.control("trace_off")
    rows = spark.read.parquet(str(tmp_path / "windows")).where(f"queue = '{queue}'").collect()
    found = {row.kind: row for row in rows}
    assert found.keys() == {"published", "delivered"}
    for row in found.values():
        assert (row.messages, row.bytes, row.node) == (COUNT, COUNT * 50, "mirror1@localhost")
        assert row.per_second == COUNT
    assert found["published"].age_ms_p50 is None
    assert 0 <= found["delivered"].age_ms_p50 <= found["delivered"].age_ms_p99 < 100_000
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["written"] > 0
    assert any(row["kind"] == "queue.created" for row in summary["windows"])
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    connection.channel().queue_delete("stats.test")
    connection.close()
