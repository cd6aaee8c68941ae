"""A real RabbitMQ as a stream: every message at least once, acknowledged when its batch is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirrormq.spark import register
from tests.brokers.ports import free_port
from tests.brokers.rabbitmq import RabbitMQ


@pytest.fixture
def channel(rabbitmq: RabbitMQ) -> Iterator[Channel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.amqp_port))
    yield connection.channel()
    connection.close()


@pytest.fixture
def uri(rabbitmq: RabbitMQ, spark: SparkSession) -> str:
    register(spark)
    return f"amqp://guest:guest@127.0.0.1:{free_port()},amqp://guest:guest@127.0.0.1:{rabbitmq.amqp_port}/%2F"


def stream(spark: SparkSession, uri: str, queues: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("mirrormq").options(broker="rabbitmq", uri=uri, queues=queues, **options)
    return reader.load()


def archive(frame: DataFrame, directory: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .options(path=str(directory / "out"), checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def test_queues_are_drained_and_acknowledged(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    names = ["drain-a", "drain-b"]
    for name in names:
        channel.queue_declare(name)
        for number in range(25):
            properties = pika.BasicProperties(message_id=f"{name} {number}", headers={"n": number})
            channel.basic_publish("", name, b"%d" % number, properties)
    query = archive(stream(spark, uri, ", ".join(names), maxMessagesPerTrigger="10"), tmp_path)
    assert query.awaitTermination(100)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").collect()
    assert sorted((row.queue, int(row.body)) for row in rows) == [(q, n) for q in names for n in range(25)]
    assert [row.sequence for row in rows] == list(range(50))
    assert all(row.message_id == f"{row.queue} {int(row.body)}" for row in rows)
    assert all(row.headers == {"n": str(int(row.body))} for row in rows)
    assert {(row.exchange, row.routing_key == row.queue, row.redelivered) for row in rows} == {
        ("", True, False)
    }
    for name in names:
        assert channel.queue_declare(name, passive=True).method.message_count == 0
        channel.queue_delete(name)


def test_a_batch_that_fails_is_given_again(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    channel.queue_declare("again")
    for number in range(10):
        channel.basic_publish("", "again", b"%d" % number)
    failing = stream(spark, uri, "again").where("if(sequence < 5, true, raise_error('enough'))")
    query = archive(failing, tmp_path)
    with pytest.raises(PySparkException):
        query.awaitTermination(100)
    query = archive(stream(spark, uri, "again"), tmp_path)
    assert query.awaitTermination(100)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {int(row.body) for row in rows} == set(range(10))
    assert all(row.redelivered for row in rows)
    assert channel.queue_declare("again", passive=True).method.message_count == 0
    channel.queue_delete("again")
