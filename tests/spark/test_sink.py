"""DataFrames are published with confirms, once; or one clear sentence says why they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mirrormq.spark import register
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ

Channel = pika.adapters.blocking_connection.BlockingChannel


@pytest.fixture(params=["mirrormq", "rabbitmq"])
def broker(request: pytest.FixtureRequest, spark: SparkSession) -> MirrorMQ | RabbitMQ:
    register(spark)
    found: MirrorMQ | RabbitMQ = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def uri(broker: MirrorMQ | RabbitMQ) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/%2F"


@pytest.fixture
def channel(broker: MirrorMQ | RabbitMQ) -> Iterator[Channel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    yield connection.channel()
    connection.close()


def contents(channel: Channel, queue: str) -> list[bytes]:
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def save(frame: DataFrame, uri: str, **options: str) -> None:
    frame.write.format("mirrormq").mode("append").options(uri=uri, **options).save()


def sentence(caught: pytest.ExceptionInfo[PySparkException]) -> str:
    return str(caught.value)


def test_rows_become_messages(spark: SparkSession, uri: str, channel: Channel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    frame = spark.range(1000).selectExpr(
        "concat('message ', id) as body", f"'{queue}' as routing_key", "map('n', string(id)) as headers",
        "named_struct('priority', 4) as properties", "timestamp_seconds(id) as timestamp",
    )  # fmt: skip
    save(frame.repartition(3), uri)
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    number = int(body.removeprefix(b"message "))
    assert properties.headers["n"] == str(number)
    assert properties.headers["x-producer"].endswith(("/0", "/1", "/2"))
    assert (properties.priority, properties.timestamp, properties.delivery_mode) == (4, number, 2)
    bodies = [body, *contents(channel, queue)]
    assert sorted(bodies) == sorted(b"message %d" % n for n in range(1000))


def test_a_stream_is_published_once_also_after_a_restart(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    source = tmp_path / "in"

    def run() -> None:
        frame = spark.readStream.schema("body string").parquet(str(source))
        query = (
            frame.writeStream.format("mirrormq")
            .options(uri=uri, routingKey=queue, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    for batch in range(2):
        rows = spark.range(batch * 10, batch * 10 + 10).selectExpr("string(id) as body")
        rows.coalesce(1).write.mode("append").parquet(str(source))
        run()
    run()
    assert sorted(map(int, contents(channel, queue))) == list(range(20))


def test_a_message_that_no_queue_wants_fails_the_write(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame([(b"x",)], "body binary")
    with pytest.raises(PySparkException, match="a mandatory message reached no queue") as caught:
        save(frame, uri, exchange="amq.direct", routingKey="nobody")
    assert "is bound for routing key 'nobody' (NO_ROUTE)" in sentence(caught)
    save(frame, uri, exchange="amq.direct", routingKey="nobody", mandatory="false")


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("1 as body", {"routingKey": "q"}, "binary or string to be published, and is int"),
        ("'x' as text", {"routingKey": "q"}, "binary or string to be published, and is missing"),
        ("'x' as body, 1 as color", {"routingKey": "q"}, "column color is no part of a message"),
        ("'x' as body", {}, "where to publish is not said"),
        ("'x' as body, named_struct('colour', 1) as properties", {"exchange": "e"},
         "properties.colour is no property of a message"),
        ("'x' as body", {"routngKey": "q"}, "there is no option routngkey: did you mean routingKey?"),
        ("'x' as body", {"routingKey": "q", "mandatory": "maybe"}, "mandatory is true or false, not 'maybe'"),
    ],
)  # fmt: skip
def test_what_cannot_be_published_is_one_sentence(
    spark: SparkSession, mirrormq: MirrorMQ, columns: str, options: dict[str, str], said: str
) -> None:
    register(spark)
    frame = spark.range(1).selectExpr(*columns.split(", ", 1))
    with pytest.raises(PySparkException) as caught:
        save(frame, f"amqp://guest:hidden-word@127.0.0.1:{mirrormq.amqp_port}", **options)
    assert said in sentence(caught)
    assert "hidden-word" not in sentence(caught)
