"""Queues as DataFrames: looked at without a trace, or consumed into Parquet, each message once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery

from mirrormq.spark import register
from mirrormq.spark.data_source_options import COLUMNS
from mirrormq.spark.decode import dead_letters, json_body, split_bad, text_body
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_port


@pytest.fixture
def uri(mirrormq: MirrorMQ, spark: SparkSession) -> str:
    register(spark)
    return f"amqp://guest:guest@127.0.0.1:{free_port()},amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"


@pytest.fixture
def channel(mirrormq: MirrorMQ) -> Iterator[Channel]:
    # Without heartbeats: nobody reads from this connection while Spark is at work.
    parameters = pika.ConnectionParameters("127.0.0.1", mirrormq.amqp_port, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


@pytest.fixture
def queue(channel: Channel, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"spark {request.node.name}"
    channel.queue_declare(name, durable=True)
    yield name
    channel.queue_delete(name)


def publish(channel: Channel, queue: str, numbers: range, **properties: object) -> None:
    for number in numbers:
        made = pika.BasicProperties(message_id=str(number), **properties)
        channel.basic_publish("", queue, b"%d" % number, made)
    channel.queue_declare(queue, passive=True)


def ready(channel: Channel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def drain(spark: SparkSession, directory: Path, **options: str) -> StreamingQuery:
    frame = spark.readStream.format("mirrormq").options(**options).load()
    query = (
        frame.writeStream.format("parquet")
        .options(path=str(directory / "out"), checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    return query


def archived(spark: SparkSession, directory: Path) -> list[int]:
    return numbers(spark.read.parquet(str(directory / "out")))


def test_looking_changes_nothing(spark: SparkSession, uri: str, channel: Channel, queue: str) -> None:
    began_s = time.time()
    publish(channel, queue, range(20), content_type="text/plain", headers={"color": "red"})
    reader = spark.read.format("mirrormq").options(uri=uri, queue=queue)
    frame = reader.option("minPartitions", "3").load()
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.orderBy("sequence").collect()
    assert [int(row.body) for row in rows] == list(range(20))
    first = rows[0]
    assert (first.queue, first.exchange, first.routing_key, first.redelivered) == (queue, "", queue, False)
    assert (first.message_id, first.content_type, first.headers) == ("0", "text/plain", {"color": "red"})
    assert [row.sequence - first.sequence for row in rows] == list(range(20))
    times_s = [row.ingestion_time.timestamp() for row in rows]
    assert began_s - 0.02 <= times_s[0] and times_s == sorted(times_s) and times_s[-1] <= time.time()
    assert ready(channel, queue) == 20
    start, end = first.sequence + 5, first.sequence + 8
    offsets = {"startingOffsets": json.dumps({queue: start}), "endingOffsets": json.dumps({queue: end})}
    assert numbers(reader.options(**offsets).load()) == [5, 6, 7]
    assert numbers(reader.option("includeProperties", "false").load()) == [5, 6, 7]


def test_filters_and_columns_reach_the_reader(
    spark: SparkSession, uri: str, channel: Channel, queue: str
) -> None:
    publish(channel, queue, range(20), headers={"color": "red"})
    options = {"uri": uri, "queue": queue, "columns": "sequence, headers, queue"}
    frame = spark.read.format("mirrormq").options(**options).load()
    assert frame.columns == ["sequence", "headers", "queue"]
    first = frame.agg({"sequence": "min"}).first()[0]  # type: ignore[index]
    found = frame.where(f"sequence >= {first + 5} and sequence < {first + 8} and queue = '{queue}'")
    assert sorted((row.sequence - first, row.headers["color"]) for row in found.collect()) == [
        (5, "red"), (6, "red"), (7, "red"),
    ]  # fmt: skip
    # What the reader applies is no longer in Spark's plan.
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", ""), plan
    assert frame.where("queue = 'another' or sequence < 0").count() == 0
    assert frame.where(f"queue in ('{queue}', 'another') and headers['color'] = 'red'").count() == 20


def test_a_read_is_limited_to_ingestion_times(
    spark: SparkSession, uri: str, channel: Channel, queue: str
) -> None:
    for first in range(0, 15, 5):
        publish(channel, queue, range(first, first + 5))
        time.sleep(0.05)
    reader = spark.read.format("mirrormq").options(uri=uri, queue=queue)
    rows = reader.load().orderBy("sequence").collect()
    times_ms = [round(row.ingestion_time.timestamp() * 1000) for row in rows]
    iso = datetime.fromtimestamp(times_ms[5] / 1000, UTC).isoformat()
    assert numbers(reader.options(startingTimestamp=iso).load()) == list(range(5, 15))
    assert numbers(reader.options(endingTimestamp=str(times_ms[10])).load()) == list(range(5, 10))
    assert reader.options(columns="sequence").load().count() == 5, "without the column, too"
    frame = spark.read.format("mirrormq").options(uri=uri, queue=queue).load()
    assert numbers(frame.where(f"ingestion_time >= timestamp '{iso}'")) == list(range(5, 15))
    assert numbers(frame.where(f"ingestion_time < timestamp '{iso}'")) == list(range(5))
    later = f"ingestion_time > timestamp '{iso}' - interval 1 hour and ingestion_time < timestamp '{iso}'"
    assert numbers(frame.where(later)) == list(range(5))


def test_watermarks_work_on_ingestion_times(
    spark: SparkSession, uri: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    """With a watermark a window is written when a later message has come."""
    publish(channel, queue, range(5))
    time.sleep(2.1)
    publish(channel, queue, range(5, 6))
    frame = (
        spark.readStream.format("mirrormq").options(uri=uri, queue=queue, maxMessagesPerTrigger="5").load()
    )
    windows = frame.withWatermark("ingestion_time", "0 seconds").groupBy(window("ingestion_time", "1 second"))
    query = (
        windows.count()
        .writeStream.format("parquet")
        .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    assert sum(row["count"] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == 5


def test_bodies_are_decoded(spark: SparkSession, uri: str, channel: Channel, queue: str) -> None:
    for body in (b'{"id": 1, "amount": 2.5}', b'{"id": 2, "more": true}', b"no JSON"):
        channel.basic_publish("", queue, body)
    frame = spark.read.format("mirrormq").options(uri=uri, queue=queue).load().orderBy("sequence")
    values = [row.value for row in json_body(frame, "id long, amount double").collect()]
    assert values == [(1, 2.5), (2, None), None]
    assert text_body(frame).collect()[2].text == "no JSON"


def test_a_body_that_is_no_such_json_is_null(spark: SparkSession) -> None:
    good = [b'{"id": 1, "nested": {"a": "x"}}', b"{}", b'{"more": 1}']
    bad = [
        b"no JSON",
        b'{"id": "x"}',
        b'{"nested": 5}',
        b'[{"id": 3}]',
        b"5",
        b"null",
        b"",
        b'{"id": 1',
        b"{}\xff",
    ]
    frame = spark.createDataFrame([(body,) for body in [*good, *bad]], "body binary")
    decoded = json_body(frame, "id long, nested struct<a string>")
    values = [row.value for row in decoded.collect()]
    assert values == [(1, ("x",)), (None, None), (None, None)] + [None] * len(bad)
    fine, rest = split_bad(decoded)
    assert [bytes(row.body) for row in fine.collect()] == good
    assert [bytes(row.body) for row in rest.collect()] == bad
    assert rest.columns == ["body"]
    with pytest.raises(ValueError, match="there is no column value or text"):
        split_bad(frame)


def test_bad_rows_become_dead_letters(spark: SparkSession, uri: str, channel: Channel, queue: str) -> None:
    other = channel.queue_declare("", exclusive=True).method.queue
    for body in (b'{"id": 1}', b"no JSON"):
        channel.basic_publish("", queue, body, pika.BasicProperties(headers={"n": "7"}, message_id="m"))
    columns = ",".join((*COLUMNS, "headers_typed"))
    frame = spark.read.format("mirrormq").options(uri=uri, queue=queue, columns=columns).load()
    bad = split_bad(json_body(frame, "id long"))[1]
    dead_letters(bad).write.format("mirrormq").mode("append").options(uri=uri, routingKey=other).save()
    _, properties, body = channel.basic_get(other, auto_ack=True)
    assert (body, properties.message_id) == (b"no JSON", "m")
    said = {name: value for name, value in properties.headers.items() if not name.startswith("x-p")}
    assert said == {
        "n": "7", "x-dead-letter-reason": "bad_body", "x-original-queue": queue, "x-original-exchange": "",
        "x-original-routing-key": queue,
    }  # fmt: skip
    assert channel.basic_get(other)[0] is None


@pytest.mark.parametrize(
    ("charset", "good", "bad", "replaced"),
    [
        ("UTF-8", "café".encode(), b"caf\xe9 x", "caf\ufffd x"),
        ("US-ASCII", b"cafe", b"caf\xe9", "caf\ufffd"),
        ("UTF-16LE", "café".encode("utf-16-le"), b"c\x00a", "c\ufffd"),
        ("GBK", "咖啡".encode("gbk"), b"\xff", "\ufffd"),
        ("unicode_escape", b"caf\\u00e9", b"\\ud800", "?"),
    ],
)
def test_a_body_that_is_not_in_the_charset_ends_no_query(
    spark: SparkSession, charset: str, good: bytes, bad: bytes, replaced: str
) -> None:
    frame = spark.createDataFrame([(good,), (bad,), (b"",)], "body binary")
    text = good.decode(charset)
    assert [row.text for row in text_body(frame, charset).collect()] == [text, None, ""]
    read = text_body(frame, charset, "words", errors="replace").collect()
    assert [row.words for row in read] == [text, replaced, ""]
    with pytest.raises(Exception, match=r"(?i)invalid|can't decode|can't encode"):
        text_body(frame, charset, errors="fail").collect()


def test_an_unknown_charset_or_error_handler_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(b"x",)], "body binary")
    for charset in ("no such", "base64"):
        with pytest.raises(ValueError, match=f"charset is '{charset}', which Python does not know"):
            text_body(frame, charset)
    with pytest.raises(ValueError, match="errors is 'ignore': use one of null, replace, fail"):
        text_body(frame, errors="ignore")  # type: ignore[arg-type]


def test_consuming_leaves_the_queue_empty(
    spark: SparkSession, uri: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    publish(channel, queue, range(100))
    query = drain(spark, tmp_path, uri=uri, queue=queue, maxMessagesPerTrigger="30")
    assert archived(spark, tmp_path) == list(range(100))
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [
        30, 30, 30, 10,
    ]  # fmt: skip
    behind = [json.loads(progress.sources[0].latestOffset)["behind"] for progress in query.recentProgress]
    assert behind[-1] == 0
    assert ready(channel, queue) == 0
    publish(channel, queue, range(100, 130))
    drain(spark, tmp_path, uri=uri, queue=queue)
    assert archived(spark, tmp_path) == list(range(130))
    # Acknowledged, not only taken: a queue that is purged and deleted if unused and empty is.
    assert channel.queue_delete(queue, if_empty=True).method.message_count == 0


def test_publishers_may_change_their_headers_and_their_types(
    spark: SparkSession, uri: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    """Headers are a map of texts, so files of before and after have one schema."""
    all_headers: list[dict[str, object] | None] = [
        {"color": "red"}, {"color": 7, "size": {"high": [1, True]}}, {"größe": None}, {}, None,
    ]  # fmt: skip
    for number, headers in enumerate(all_headers):
        publish(channel, queue, range(number, number + 1), headers=headers)
        if number in (0, 4):
            drain(spark, tmp_path, uri=uri, queue=queue)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").collect()
    assert [row.headers for row in rows] == [
        {"color": "red"}, {"color": "7", "size": '{"high": [1, true]}'}, {"größe": None}, {}, None,
    ]  # fmt: skip


def test_several_queues_by_pattern(spark: SparkSession, uri: str, channel: Channel, tmp_path: Path) -> None:
    for number, name in enumerate(("pattern.a", "pattern.b", "other.pattern.a")):
        channel.queue_declare(name, durable=True)
        publish(channel, name, range(number * 10, number * 10 + 10))
    drain(spark, tmp_path, uri=uri, queuePattern=r"pattern\..", maxMessagesPerTrigger="8")
    assert archived(spark, tmp_path) == list(range(20))
    assert [ready(channel, name) for name in ("pattern.a", "pattern.b", "other.pattern.a")] == [0, 0, 10]
    for name in ("pattern.a", "pattern.b", "other.pattern.a"):
        channel.queue_delete(name)


def test_a_batch_that_fails_is_read_again_and_comes_once(
    spark: SparkSession, uri: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    publish(channel, queue, range(50))
    frame = spark.readStream.format("mirrormq").options(uri=uri, queue=queue, minPartitions="2").load()
    failing = frame.where("if(int(string(body)) < 40, true, raise_error('enough'))")
    writer = failing.writeStream.format("parquet").trigger(availableNow=True)
    places = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
    with pytest.raises(PySparkException):
        writer.options(**places).start().awaitTermination(100)
    assert ready(channel, queue) == 0
    publish(channel, queue, range(50, 60))
    drain(spark, tmp_path, uri=uri, queue=queue)
    assert archived(spark, tmp_path) == list(range(60))


def test_a_stream_that_browses_goes_on_where_it_was(
    spark: SparkSession, uri: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    for batch in range(2):
        publish(channel, queue, range(batch * 20, batch * 20 + 20))
        drain(spark, tmp_path, uri=uri, queue=queue, mode="browse", maxMessagesPerTrigger="7")
    assert archived(spark, tmp_path) == list(range(40))
    assert ready(channel, queue) == 40
    channel.queue_delete(queue)
    with pytest.raises(PySparkException, match="was deleted: set failOnDataLoss to false"):
        drain(spark, tmp_path, uri=uri, queue=queue, mode="browse")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "set one of the options queue, queues (comma-separated) or queuePattern: none of them is set"),
        ({"queue": "q", "queues": "a,b"}, "queue and queues are set"),
        ({"queuePattern": "("}, "option queuePattern is no regular expression"),
        ({"queue": "q", "mode": "peek"}, "option mode is one of consume, browse, not 'peek'"),
        ({"queue": "q", "maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger is a whole number from 1 on"),
        ({"queue": "q", "uri": "http://x"}, "option uri cannot be used: a URI must begin with amqp://"),
        ({"queue": "q", "mode": "browse", "startingOffsets": "[1]"}, "is earliest, latest, or JSON"),
        ({"queue": "q", "broker": "rabbitmq", "mode": "browse"}, "a RabbitMQ queue cannot be read twice"),
        ({"queue": "q", "endingOffsets": "latest"}, "option endingOffsets is for spark.read"),
        ({"queue": "q", "endingTimestamp": "5"}, "option endingTimestamp is for spark.read: a stream has no"),
        ({"queue": "q", "startingTimestamp": "5"}, "option startingTimestamp is for mode browse"),
        ({"queue": "q", "startingTimestamp": "noon"}, "is a time such as 2026-01-31T12:00:00Z"),
        ({"queue": "q", "startingTimestamp": "1969-01-01"}, "or milliseconds since 1970"),
        (
            {"queue": "q", "startingTimestamp": "2026-01-02", "endingTimestamp": "5"},
            "option endingTimestamp is before startingTimestamp",
        ),
    ],
)
def test_wrong_options_of_a_stream_are_one_sentence(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    register(spark)
    places = {"uri": "amqp://guest:hidden-word@127.0.0.1"}
    with pytest.raises(PySparkException) as caught:
        drain(spark, tmp_path, **{**places, **options})
    assert said in str(caught.value)
    assert "hidden-word" not in str(caught.value)


def test_credentials_are_in_no_plan(
    spark: SparkSession, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = uri.replace("guest:guest", "guest:hidden-word")
    for reader in (spark.read, spark.readStream):
        frame = reader.format("mirrormq").options(uri=secret, queue="q", password="hidden-too").load()
        frame.explain(True)
        plan = frame._jdf.queryExecution().analyzed().toString()
        assert "hidden" not in capsys.readouterr().out + plan
