"""DataFrames are published with confirms, once; or one clear sentence says why they are not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mirrormq.spark import publish_once, register
from mirrormq.spark.option_reader import OptionError
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ


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


def test_rows_become_messages(
    spark: SparkSession, broker: MirrorMQ | RabbitMQ, uri: str, channel: Channel
) -> None:
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
    if isinstance(broker, MirrorMQ):
        assert re.fullmatch(r"[0-9a-f]{32}/[012]/[0-9a-f]{12}", properties.headers["x-producer"])
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


@pytest.fixture
def ours(spark: SparkSession, mirrormq: MirrorMQ) -> Iterator[tuple[Channel, str, str]]:
    """A channel, a queue and the URI of a MirrorMQ; Spark hands rows over in small pieces."""
    register(spark)
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", mirrormq.amqp_port))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    yield channel, queue, f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection.close()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(before))


def test_a_write_that_failed_half_way_is_run_again_and_publishes_once(
    spark: SparkSession, ours: tuple[Channel, str, str]
) -> None:
    channel, queue, uri = ours
    rows = spark.range(0, 300, 1, 2).selectExpr("id", "string(id) as body")
    failing = rows.where("if(id < 250, true, raise_error('enough'))").select("body")
    options = {"routingKey": queue, "writeId": f"job of {queue}"}
    with pytest.raises(PySparkException, match="enough"):
        save(failing, uri, **options)
    published = channel.queue_declare(queue, passive=True).method.message_count
    assert 150 <= published < 300
    for _ in range(2):
        save(rows.select("body"), uri, **options)
        assert channel.queue_declare(queue, passive=True).method.message_count == 300
    assert sorted(map(int, contents(channel, queue))) == list(range(300))


def test_a_function_that_fails_after_publish_once_publishes_once(
    spark: SparkSession, ours: tuple[Channel, str, str], tmp_path: Path
) -> None:
    channel, queue, uri = ours
    failures = [True, False, False]

    def publish(frame: DataFrame, batch: int) -> None:
        publish_once(frame, batch, uri=uri, routingKey=queue)
        if failures.pop(0):
            raise RuntimeError("after the publish")

    def run() -> None:
        frame = spark.readStream.schema("body string").parquet(str(tmp_path / "in"))
        checkpoint = str(tmp_path / "checkpoint")
        stream = frame.writeStream.foreachBatch(publish).option("checkpointLocation", checkpoint)
        assert stream.trigger(availableNow=True).start().awaitTermination(60)

    for batch in range(2):
        rows = spark.range(batch * 10, batch * 10 + 10).selectExpr("string(id) as body")
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        if batch == 0:
            with pytest.raises(PySparkException, match="after the publish"):
                run()
        run()
    assert not failures
    assert sorted(map(int, contents(channel, queue))) == list(range(20))
    with pytest.raises(OptionError, match="call it in foreachBatch, or give the option writeId"):
        publish_once(rows, 1, uri=uri, routingKey=queue)


def test_two_calls_of_publish_once_have_names_of_their_own(
    spark: SparkSession, ours: tuple[Channel, str, str], tmp_path: Path
) -> None:
    """Under one name the same rows for a second purpose were taken for a repetition, and lost."""
    channel, queue, uri = ours
    names = [("", ""), ("first", ""), ("first", "second"), ("first", "second")]
    rows = spark.range(10).selectExpr("string(id) as body")
    rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

    def publish(frame: DataFrame, batch: int) -> None:
        for name in names[0]:
            publish_once(frame, batch, name, uri=uri, routingKey=queue)
        if len(names) > 1:
            names.pop(0)
            raise RuntimeError("after both")

    def run() -> None:
        frame = spark.readStream.schema("body string").parquet(str(tmp_path / "in"))
        checkpoint = str(tmp_path / "checkpoint")
        stream = frame.writeStream.foreachBatch(publish).option("checkpointLocation", checkpoint)
        assert stream.trigger(availableNow=True).start().awaitTermination(60)

    with pytest.raises(PySparkException, match="called twice for batch 0 under one name: give each call"):
        run()
    assert sorted(map(int, contents(channel, queue))) == list(range(10))
    names.pop(0)
    for _ in range(2):
        with pytest.raises(PySparkException, match="after both"):
            run()
    run()
    assert sorted(map(int, contents(channel, queue))) == sorted([*range(10), *range(10)])


def test_a_repeated_batch_is_split_as_it_was_and_published_once(
    spark: SparkSession, ours: tuple[Channel, str, str], tmp_path: Path
) -> None:
    """The offset says how the batch was split, so a query that is started again with other options repeats it
    in the same partitions; the first one had published the rows of one of them."""
    channel, queue, uri = ours
    source = f"repeated.{queue[8:]}"
    channel.queue_declare(source, auto_delete=False)
    channel.confirm_delivery()
    for number in range(1000):
        channel.basic_publish("", source, b"%d" % number)
    places = {"uri": uri, "routingKey": queue, "checkpointLocation": str(tmp_path / "checkpoint")}

    def run(condition: str, partitions: int) -> None:
        frame = spark.readStream.format("mirrormq").options(uri=uri, queue=source, minPartitions=partitions)
        rows = frame.load().where(condition).select("body")
        query = rows.writeStream.format("mirrormq").options(**places).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    with pytest.raises(PySparkException, match="enough"):
        run("if(int(string(body)) < 500, true, raise_error('enough'))", 2)
    assert channel.queue_declare(queue, passive=True).method.message_count == 500
    run("true", 4)
    assert sorted(map(int, contents(channel, queue))) == list(range(1000))
    channel.queue_delete(source)


def test_a_write_with_changed_rows_loses_none(spark: SparkSession, ours: tuple[Channel, str, str]) -> None:
    channel, queue, uri = ours
    rows = spark.range(0, 1000, 1, 2).selectExpr("string(id) as body")
    options = {"routingKey": queue, "writeId": f"job of {queue}"}
    save(rows, uri, **options)
    save(rows.repartition(4), uri, **options)
    found = sorted(map(int, contents(channel, queue)))
    assert set(found) == set(range(1000))
    with pytest.raises(PySparkException, match="set failOnChangedRows to false to publish these too"):
        save(rows.repartition(3), uri, failOnChangedRows="true", **options)


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
        ("'x' as body", {}, "the target is missing"),
        ("'x' as body, named_struct('colour', 1) as properties", {"exchange": "e"},
         "properties.colour is no property of a message"),
        ("'x' as body", {"routngKey": "q"}, "there is no option routngkey: did you mean routingKey?"),
        ("'x' as body", {"routingKey": "q", "mandatory": "maybe"}, "mandatory is true or false, not 'maybe'"),
    ],
)  # fmt: skip
def test_an_unpublishable_row_is_reported_in_one_sentence(
    spark: SparkSession, mirrormq: MirrorMQ, columns: str, options: dict[str, str], said: str
) -> None:
    register(spark)
    frame = spark.range(1).selectExpr(*columns.split(", ", 1))
    with pytest.raises(PySparkException) as caught:
        save(frame, f"amqp://guest:hidden-word@127.0.0.1:{mirrormq.amqp_port}", **options)
    assert said in sentence(caught)
    assert "hidden-word" not in sentence(caught)
