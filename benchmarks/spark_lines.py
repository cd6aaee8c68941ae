"""Timed Spark workloads on queues: each function does one piece of work and returns its duration."""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pika

from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.spark_connection import CHANNEL
from mirrormq.spark.client.spark_publisher import SparkPublisher
from mirrormq.spark.source.row_schema import COLUMNS, PROPERTIES
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.frames import FRAME_MAX_BYTES
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

BODY_BYTES = 100
PREFETCH = 1000
"""Prefetch of the loop with pika, as a user would choose it."""


class MessageKind(NamedTuple):
    """Kind of messages to publish."""

    name: str
    properties: Callable[[int], BasicProperties]
    """Returns the properties of the message with this number."""


def _own_properties(number: int) -> BasicProperties:
    headers = table_of({"tenant": "t1", "attempt": number % 3, "trace_id": uuid.uuid4().hex})
    return BasicProperties(
        content_type="application/json", headers=headers, delivery_mode=2, message_id=str(uuid.uuid4())
    )


def _celery_properties(number: int) -> BasicProperties:
    """Return the properties of a task of Celery 5, protocol 2."""
    task_id = str(uuid.uuid4())
    headers = table_of(
        {
            "lang": "py", "task": "shop.add", "id": task_id, "shadow": None, "eta": None, "expires": None,
            "group": None, "group_index": None, "retries": 0, "timelimit": [None, None], "root_id": task_id,
            "parent_id": None, "argsrepr": f"({number}, 2)", "kwargsrepr": "{}", "origin": "gen41@host",
            "ignore_result": False, "stamped_headers": None, "stamps": {},
        }
    )  # fmt: skip
    return BasicProperties(
        content_type="application/json", content_encoding="utf-8", headers=headers, delivery_mode=2,
        priority=0, correlation_id=task_id, reply_to=str(uuid.uuid4()),
    )  # fmt: skip


IDENTICAL = MessageKind("identical", lambda number: BasicProperties(delivery_mode=2))
OWN = MessageKind("own message ids and headers", _own_properties)
CELERY = MessageKind("Celery's", _celery_properties)
KINDS = (IDENTICAL, OWN, CELERY)


def fill(
    uri: str, queue: str, messages: int, kind: MessageKind = IDENTICAL, body_bytes: int = BODY_BYTES
) -> None:
    """Declare a durable queue and publish persistent messages to it."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    connection.channel().queue_declare(queue, durable=True)
    connection.close()
    publish, body = method_frame(CHANNEL, encode_basic_publish("", queue, True)), b"x" * body_bytes
    with SparkPublisher(Nodes(parse_uris(uri))) as publisher:
        for number in range(messages):
            properties = encode_properties(kind.properties(number))
            publisher.publish(publish + build_frames(CHANNEL, properties, body, FRAME_MAX_BYTES))


def ours_to_parquet(
    spark: SparkSession, uri: str, queues: str, directory: Path, partitions: int = 1
) -> float:
    """Consume the queues (names with commas) into Parquet, exactly once; return the seconds."""
    began = time.monotonic()
    options = {"uri": uri, "queues": queues, "minPartitions": str(partitions)}
    frame = spark.readStream.format("mirrormq").options(**options).load()
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
    headers = properties.headers and {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in properties.headers.items()
    }
    return (
        queue, method.delivery_tag, method.exchange, method.routing_key, method.redelivered, None, stamp,
        properties.message_id, properties.content_type, headers, others, body,
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
