"""Archive and replay: queues into Parquet and back, each message once, small files put together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pyarrow.parquet as pq
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from mirrormq.cli.program import app
from mirrormq.spark.jobs import archive as archive_job
from mirrormq.spark.jobs import compaction
from mirrormq.spark.jobs.archive import ArchiveOptions, archive, archived, interval
from mirrormq.spark.jobs.compaction import compact
from mirrormq.spark.jobs.replay import ReplayOptions, ReplayProgress, replay
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import SHORT_WORK
from tests.spark.numbered import declared, drain, publish

QUEUES = ("jobs.a", "jobs.b")


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, QUEUES, "jobs.again") as channel:
        yield channel


def bodies(directory: Path, pattern: str = "date=*/queue=*/batch=*/*.parquet") -> list[int]:
    files = directory.glob(pattern)
    tables = [pq.read_table(file, columns=["body"], partitioning=None) for file in files]
    return sorted(int(body) for table in tables for body in table["body"].to_pylist())


def options(uri: str, to: Path, **more: str) -> ArchiveOptions:
    return ArchiveOptions(uri, r"jobs\.[ab]", str(to), once=True, source=more)


def batches(archive: Path, place: str) -> list[str]:
    return sorted(path.name for path in archive.glob(f"{place}/**/batch=*"))


def age(archive: Path, day: str) -> None:
    """Let the archive look as if its only day were another one."""
    (written,) = archive.glob("date=*")
    written.rename(archive / f"date={day}")


def test_queues_are_archived_compacted_and_replayed(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    publish(channel, QUEUES, range(30), day=1)
    assert archive(spark, options(uri, tmp_path, maxMessagesPerTrigger="8")) == 30
    assert bodies(tmp_path) == list(range(30))
    age(tmp_path, "2020-01-02")
    assert bodies(tmp_path, "date=2020-01-02/queue=jobs.a/batch=*/*.parquet") == list(range(0, 30, 2))
    publish(channel, QUEUES, range(30, 40), day=2)
    assert archive(spark, options(uri, tmp_path)) == 10
    assert bodies(tmp_path) == list(range(40))
    before = len(batches(tmp_path, "date=2020-01-02/queue=jobs.a"))
    assert before >= 3
    assert compact(spark, str(tmp_path), batches_min=2) == 2
    assert len(batches(tmp_path, "date=2020-01-02/queue=jobs.a")) == 1
    assert bodies(tmp_path) == list(range(40))
    frame = spark.read.parquet(str(tmp_path))
    assert frame.where("date > '2020-01-02' and queue = 'jobs.b'").count() == 5
    assert [row.headers for row in frame.where("body = '7'").collect()] == [{"n": "7"}]

    channel.queue_declare("jobs.again", durable=True)
    channel.exchange_declare("jobs.exchange", "fanout", auto_delete=True)
    channel.queue_bind("jobs.again", "jobs.exchange")
    asked = ReplayOptions(uri, str(tmp_path), where="date = '2020-01-02'", exchange="jobs.exchange")
    assert replay(spark, asked) == 30
    assert replay(spark, asked) == 0
    assert sorted(map(int, drain(channel, "jobs.again"))) == list(range(30))


def test_an_archive_is_merged_and_thinned_while_it_runs(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep before each batch leaves the batch that is written, and an earlier attempt at it, alone."""
    monkeypatch.setattr(compaction, "BATCHES_MIN", 2)
    publish(channel, QUEUES, range(24))
    asked = replace(
        options(uri, tmp_path, maxMessagesPerTrigger="6"), partition_by=("date", "hour", "queue"),
        compact=True, upkeep="0s",
    )  # fmt: skip
    seen: list[list[str]] = []
    write = archive_job.write_batch

    def write_twice(messages: DataFrame, number: int, *rest: Any) -> None:
        seen.append(batches(tmp_path, "date=*/hour=*/queue=jobs.a"))
        write(messages, number, *rest)
        if number == 3:  # an attempt that Spark repeats: its files are there when the batch begins again
            upkeep = archive_job.upkeep_of(asked)
            query = archive_job.query_of(messages)[: archive_job.QUERY_DIGITS]
            upkeep.before_batch(messages.sparkSession, compaction.FirstOpenBatch(query, number))
            write(messages, number, *rest)

    monkeypatch.setattr(archive_job, "write_batch", write_twice)
    archive(spark, asked)
    every = "date=*/hour=*/queue=*/batch=*/*.parquet"
    assert bodies(tmp_path, every) == list(range(24))
    query = seen[1][0].partition(".")[0]
    merged = f"{query}.{0:012}-{1:012}"
    assert seen[2:] == [[merged], [merged, f"{query}.{2:012}"]], (
        "merged before batch 2, and not again for one"
    )
    rows = spark.read.parquet(str(tmp_path)).select("hour", "ingestion_time").collect()
    assert {row.hour for row in rows} == {row.ingestion_time.astimezone(UTC).hour for row in rows}
    age(tmp_path, "2020-01-02")
    publish(channel, QUEUES, range(24, 30))
    assert archive(spark, replace(asked, retention="30d")) == 6
    assert bodies(tmp_path, every) == list(range(24, 30)), "only the messages of 2020 are too old"


def test_the_date_of_a_message_is_not_the_publishers(spark: SparkSession) -> None:
    """Publishers set any time stamp; the retention would delete a message that has just come."""
    schema = "timestamp timestamp, ingestion_time timestamp, body string"
    ingested = datetime(2026, 1, 2, 3, tzinfo=UTC)
    rows = [(datetime(1970, 1, 1, tzinfo=UTC), ingested, "a"), (datetime(2999, 1, 1, tzinfo=UTC), None, "b")]
    dated = archived(spark.createDataFrame(rows, schema), ("date", "hour"))
    first, second = (
        dated.selectExpr("body", "date", "hour", "current_date() as today").orderBy("body").collect()
    )
    assert (str(first.date), first.hour) == ("2026-01-02", "03")
    assert second.date == second.today


def test_a_replay_restores_typed_headers_in_another_queue_many_queues_at_a_time(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    for number in range(12):
        headers = {"number": number, "table": {"a": [1, None, True]}}
        properties = pika.BasicProperties(headers=headers, timestamp=number)
        channel.basic_publish("", QUEUES[number % 2], b"%d" % number, properties)
    asked = replace(options(uri, tmp_path, maxMessagesPerTrigger="4"), typed_headers=True)
    assert archive(spark, asked) == 12
    channel.queue_declare("jobs.again", durable=True)
    to = ReplayOptions(uri, str(tmp_path), queue="jobs.again", parallel=2, rate="1000/s")
    assert replay(spark, to) == 12
    assert replay(spark, to) == 0
    found = []
    while (got := channel.basic_get("jobs.again", auto_ack=True))[0] is not None:
        kept = {name: value for name, value in got[1].headers.items() if not name.startswith("x-p")}
        assert kept == {"number": int(got[2]), "table": {"a": [1, None, True]}}
        found.append(int(got[2]))
    assert [number for number in found if number % 2] == list(range(1, 12, 2)), "each queue in its order"
    assert sorted(found) == list(range(12))
    key = replace(to, queue=None, exchange="", routing_key="jobs.again", parallel=1)
    assert replay(spark, key) == 12, "another target is another replay"
    assert len(drain(channel, "jobs.again")) == 12
    wrong = replace(to, queue=None, exchange="missing")
    with pytest.raises(PipelineError, match="no exchange 'missing'"):
        replay(spark, wrong)


def test_a_replay_keeps_its_pace_and_goes_on_where_it_was(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    publish(channel, QUEUES, range(20))
    archive(spark, options(uri, tmp_path))
    notes = tmp_path / "notes.json"
    asked = ReplayOptions(uri, str(tmp_path), rate="20/s", progress=notes)
    began = time.monotonic()
    assert replay(spark, asked) == 20
    assert time.monotonic() - began > 2 * 9 / 20, "two slices of ten messages, twenty a second"
    for queue, parity in zip(QUEUES, (0, 1), strict=True):
        assert [int(body) for body in drain(channel, queue)] == list(range(parity, 20, 2))
    found = json.loads(notes.read_text())
    assert sorted(found["done"].values()) == [10, 10]
    forgotten = sorted(found["done"])[0]
    del found["done"][forgotten]
    notes.write_text(json.dumps(found))
    assert replay(spark, asked) == 10, "the slice that was not noted is published again"
    assert ReplayProgress(notes).replay == found["replay"], "under the same name, so that the broker knows it"
    assert replay(spark, ReplayOptions(uri, str(tmp_path), speed="10x", progress=tmp_path / "more")) == 20


def test_a_replay_at_twice_the_speed_keeps_the_times_and_plays_queues_together(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    """Stamps are of whole seconds: a message a second, in turn to the one queue and to the other."""
    publish(channel, QUEUES, range(1, 10))
    archive(spark, options(uri, tmp_path))
    channel.queue_declare("jobs.again")
    channel.exchange_declare("jobs.times", "fanout", auto_delete=True)
    channel.queue_bind("jobs.again", "jobs.times")
    asked = ReplayOptions(uri, str(tmp_path), exchange="jobs.times", speed="2x")
    arrived: list[tuple[float, int]] = []

    def receive() -> None:
        with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
            for _, _, body in connection.channel().consume(
                "jobs.again", auto_ack=True, inactivity_timeout=60
            ):
                if body is None:
                    return
                arrived.append((time.monotonic(), int(body)))
                if len(arrived) == 9:
                    return

    receiver = threading.Thread(target=receive)
    receiver.start()
    assert replay(spark, asked) == 9
    receiver.join()
    assert [number for _, number in arrived] == list(range(1, 10)), "both queues together, in time"
    for when, number in arrived:
        # At the speed of the stamps the last would come after eight seconds, at no pace at once.
        assert when - arrived[0][0] == pytest.approx((number - 1) / 2, abs=1.0)


def test_an_archive_that_was_compacted_under_a_replay_is_refused(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    publish(channel, QUEUES, range(8))
    archive(spark, options(uri, tmp_path, maxMessagesPerTrigger="4"))
    asked = ReplayOptions(uri, str(tmp_path), progress=tmp_path / "notes")
    assert replay(spark, asked) == 8
    publish(channel, QUEUES, range(8, 10))
    archive(spark, options(uri, tmp_path))
    compact(spark, str(tmp_path), batches_min=2)
    with pytest.raises(PipelineError, match="the archive was compacted since this replay began"):
        replay(spark, asked)


def test_names_that_look_like_numbers_are_replayed_as_they_are(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    """A query's name is eight hexadecimal digits, and now and then all of them are decimal."""
    columns = "date string, queue string, batch string, sequence long, routing_key string, body binary"

    def add(batch: int, numbers: range) -> None:
        rows = [
            ("1970-01-02", "1e5", f"12345678.{batch:012}", number, QUEUES[0], b"%d" % number)
            for number in numbers
        ]
        writer = spark.createDataFrame(rows, columns).write.partitionBy("date", "queue", "batch")
        writer.mode("append").parquet(str(tmp_path))

    add(0, range(3))
    add(1, range(3, 6))
    asked = ReplayOptions(uri, str(tmp_path), where="queue = '1e5' and date = '1970-01-02'", exchange="")
    assert replay(spark, asked) == 6
    add(2, range(6, 9))
    assert replay(spark, asked) == 3
    assert [int(body) for body in drain(channel, QUEUES[0])] == list(range(9))


def test_a_failure_while_a_job_runs_is_one_sentence(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    publish(channel, QUEUES, range(2))
    archive(spark, options(uri, tmp_path))
    with pytest.raises(
        PipelineError, match=r"^the replay stopped: .*no exchange 'missing' in vhost '/'"
    ) as caught:
        replay(spark, ReplayOptions(uri, str(tmp_path), exchange="missing"))
    assert "\n" not in str(caught.value)
    wrong = options(uri.replace("guest:guest", "guest:hidden-word"), tmp_path / "other")
    with pytest.raises(PipelineError, match=r"^the archive stopped: .*ACCESS_REFUSED") as caught:
        archive(spark, wrong)
    assert "hidden-word" not in str(caught.value)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_an_archive_after_a_batch(uri: str, channel: Channel, tmp_path: Path) -> None:
    publish(channel, QUEUES, range(10))
    command = [sys.executable, "-m", "mirrormq.cli.main", "pipeline", "archive", "--uri", uri]
    command += ["--queues", r"jobs\.[ab]", "--to", str(tmp_path), "--trigger", "100ms"]
    command += ["--master", "local[1]", "--conf", f"spark.driver.extraJavaOptions={SHORT_WORK}"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while len(bodies(tmp_path)) < 10 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Java as well
    said, wrong = process.communicate(timeout=60)
    assert (process.returncode, wrong) == (0, "")
    assert said == f"10 messages archived in {tmp_path}\n"
    assert bodies(tmp_path) == list(range(10))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("archive --queues ( --to x", "option queuePattern is no regular expression"),
        (
            "archive --queues q --to x --partition-by color",
            "--partition-by takes date, hour and queue, not color",
        ),
        ("archive --queues q --to x --partition-by hour,queue", "--partition-by hour needs date"),
        ("archive --queues q --to x --retention soon", "--retention soon is no number of days such as 30d"),
        ("archive --queues q --to x --upkeep soon", "soon is no interval such as 10s"),
        (
            "archive --queues q --to x --retention 3d --partition-by queue,date",
            "--retention deletes whole days: let --partition-by begin with date",
        ),
        (
            "archive --queues q --to x --retention 3d --master sc://h",
            "--compact and --retention need a Spark of their own",
        ),
        (
            "archive --queues q --to x --typed-headers --option columns=body",
            "--typed-headers adds a column to all others",
        ),
        ("replay --from . --queue q --exchange e", "--queue is a target of its own"),
        ("replay --from . --parallel 0", "--parallel 0 is no number of queues"),
        ("replay --from . --parallel 2 --speed 2x", "--speed keeps the times of all queues together"),
        ("archive --queues q --to x --trigger soon", "soon is no interval such as 10s"),
        (
            "archive --queues q --to x --format csv",
            "--format csv cannot be written: there is parquet, delta and iceberg",
        ),
        (
            "archive --queues q --to x --format delta --master sc://h",
            "--format delta needs a Spark of its own",
        ),
        ("archive --queues q --to x --option color", "--option color is not of the form KEY=VALUE"),
        ("archive --queues q --to x --option color=red", "there is no option color"),
        ("archive --queues q --to x --uri http://h", "a URI must begin with amqp:// or amqps://"),
        ("replay --from missing", "there is no archive at missing: give --from the directory of one"),
        ("replay --from . --rate fast", "--rate fast is no rate such as 1000/s"),
        ("replay --from . --speed fast", "--speed fast is no speed such as 2x"),
        ("replay --from s3://bucket/a", "--progress is needed for an archive that is not on this machine"),
    ],
)
def test_wrong_options_are_one_sentence(command: str, said: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", *command.split()])
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"mirrormq pipeline {command.split()[0]}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [("10s", "10 seconds"), ("100ms", "100 milliseconds"), ("1 minute", "1 minutes"), ("2 hours", "2 hours")],
)
def test_intervals_are_read_as_people_write_them(text: str, said: str) -> None:
    assert interval(text) == said
