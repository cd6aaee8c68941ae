"""Timed Spark workloads on queues: each function does one piece of work and returns its duration."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika

from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.spark_connection import FRAME_MAX_BYTES
from mirrormq.spark.client.spark_publisher import SparkPublisher
from mirrormq.spark.data_source_options import sink_options
from mirrormq.spark.sink.row_encoder import RowEncoder
from mirrormq.spark.source.row_schema import COLUMNS, PROPERTIES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

BODY_BYTES = 100
PREFETCH = 1000
"""Prefetch of the loop with pika, as a user would choose it."""


def fill(uri: str, queue: str, messages: int) -> None:
    """Declare a durable queue and publish persistent messages to it."""
    import pyarrow as pa

    connection = pika.BlockingConnection(pika.URLParameters(uri))
    connection.channel().queue_declare(queue, durable=True)
    connection.close()
    options = sink_options({"uri": uri, "routingKey": queue, "broker": "rabbitmq"})
    rows = RowEncoder(options, None, 1, FRAME_MAX_BYTES)
    batch: pa.RecordBatch = pa.RecordBatch.from_pydict({"body": [b"x" * BODY_BYTES] * 10_000})
    with SparkPublisher(Nodes(parse_uris(uri))) as publisher:
        for _ in range(messages // batch.num_rows):
            for message in rows.messages(batch):
                publisher.publish(message)


def ours_to_parquet(spark: SparkSession, uri: str, queue: str, directory: Path) -> float:
    """Consume the queue into Parquet, exactly once; return the seconds."""
    began = time.monotonic()
    frame = spark.readStream.format("mirrormq").options(uri=uri, queue=queue).load()
    query = (
        frame.writeStream.format("parquet")
        .options(path=str(directory / "out"), checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - began


def _row(queue: str, method: Any, properties: Any, body: bytes) -> tuple[Any, ...]:
    """Return a message of pika with the columns of our source."""
    stamp = properties.timestamp and datetime.datetime.fromtimestamp(properties.timestamp, datetime.UTC)
    others = tuple(getattr(properties, name) for name in PROPERTIES.names)
    return (
        queue, method.delivery_tag, method.exchange, method.routing_key, method.redelivered, stamp,
        properties.message_id, properties.content_type, properties.headers, others, body,
    )  # fmt: skip


def pika_to_parquet(spark: SparkSession, uri: str, queue: str, messages: int, directory: Path) -> float:
    """Write the same rows with a foreachBatch that drains the queue with pika; return the seconds."""

    def drain(frame: DataFrame, number: int) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        rows: list[tuple[Any, ...]] = []
        tag = 0
        for method, properties, body in channel.consume(queue, inactivity_timeout=1):
            if method is None:
                break
            tag = method.delivery_tag
            rows.append(_row(queue, method, properties, body))
            if len(rows) == messages:
                break
            if len(rows) % PREFETCH == 0:
                channel.basic_ack(tag, multiple=True)
        spark.createDataFrame(rows, COLUMNS).write.mode("append").parquet(str(directory / "out"))
        channel.basic_ack(tag, multiple=True)
        connection.close()

    began = time.monotonic()
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = (
        ticks.writeStream.foreachBatch(drain)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(once=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - began


def parquet_to_parquet(spark: SparkSession, source: Path, directory: Path) -> float:
    """Copy the same rows from files to files, the lower bound; return the seconds."""
    began = time.monotonic()
    spark.read.parquet(str(source)).write.parquet(str(directory))
    return time.monotonic() - began


def messages_frame(spark: SparkSession, queue: str, messages: int) -> DataFrame:
    """Return a DataFrame of messages to publish, in two partitions."""
    rows = spark.range(0, messages, 1, 2)
    return rows.selectExpr(f"cast(repeat('x', {BODY_BYTES}) as binary) as body", f"'{queue}' as routing_key")


def ours_to_exchange(spark: SparkSession, uri: str, queue: str, messages: int) -> float:
    """Publish with confirms, exactly once; return the seconds."""
    began = time.monotonic()
    frame = messages_frame(spark, queue, messages)
    frame.write.format("mirrormq").mode("append").option("uri", uri).save()
    return time.monotonic() - began


def pika_to_exchange(spark: SparkSession, uri: str, queue: str, messages: int) -> float:
    """Publish the same rows with pika in each partition; return the seconds."""

    def publish(rows: Iterator[Row]) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(uri))
        channel = connection.channel()
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        for row in rows:
            channel.basic_publish("", row.routing_key, bytes(row.body), persistent, mandatory=True)
        connection.close()

    began = time.monotonic()
    messages_frame(spark, queue, messages).foreachPartition(publish)
    return time.monotonic() - began
