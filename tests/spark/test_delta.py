"""Archive as a Delta table: each batch is added once under failures, and any reader can read it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql import SparkSession

from mirrormq.spark.jobs import delta, table_files
from mirrormq.spark.jobs.archive import ArchiveOptions, archive
from mirrormq.spark.jobs.replay import ReplayOptions, replay
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import SHORT_WORK
from tests.spark.numbered import declared, drain, publish

QUEUES = ("delta.a", "delta.b/ü:%20=[x]")
AGAIN = "delta.again"


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, QUEUES, AGAIN) as channel:
        yield channel


def options(uri: str, to: Path, *, compact: bool = False, **more: str) -> ArchiveOptions:
    return ArchiveOptions(
        uri, r"delta\..*", str(to), once=True, compact=compact, source=more, file_format="delta"
    )


def numbers(rows: pa.Table) -> list[int]:
    return sorted(int(body) for body in rows["body"].to_pylist())


def test_queues_become_a_table_that_others_read_and_that_is_replayed(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    publish(channel, QUEUES, range(20), day=1)
    assert archive(spark, options(uri, tmp_path, maxMessagesPerTrigger="5")) == 20
    publish(channel, QUEUES, range(20, 30), day=2)
    assert archive(spark, options(uri, tmp_path)) == 10
    table = DeltaTable(tmp_path)
    assert table.metadata().partition_columns == ["date", "queue"]
    rows = table.to_pyarrow_table()
    assert numbers(rows) == list(range(30))
    assert set(rows["queue"].to_pylist()) == set(QUEUES)
    assert dict(rows.filter(pa.compute.equal(rows["body"], b"7"))["headers"][0].as_py()) == {"n": "7"}
    files = len(table.file_uris())
    assert files >= 8
    assert archive(spark, options(uri, tmp_path, compact=True)) == 0
    table = DeltaTable(tmp_path)
    assert len(table.file_uris()) == 2 < files, "one for each date and queue"
    assert numbers(table.to_pyarrow_table()) == list(range(30))
    plain = spark.read.option("basePath", str(tmp_path)).parquet(*table.file_uris())
    assert plain.where("date > '1970-01-03' and queue like 'delta.b%'").count() == 15
    frame = delta.read_table(spark, str(tmp_path))
    found = {(row.queue, int(row.body)) for row in frame.select("queue", "body").collect()}
    assert found == {(QUEUES[number % 2], number) for number in range(30)}

    channel.queue_declare(AGAIN, durable=True)
    channel.exchange_declare("delta.exchange", "fanout", auto_delete=True)
    channel.queue_bind(AGAIN, "delta.exchange")
    where = f"queue = '{QUEUES[1]}'"
    asked = ReplayOptions(uri, str(tmp_path), where=where, exchange="delta.exchange")
    assert replay(spark, asked) == 15
    assert replay(spark, asked) == 0
    assert sorted(map(int, drain(channel, AGAIN))) == list(range(1, 30, 2))


def test_a_batch_that_is_run_again_is_added_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("q", 1, b"x")], "queue string, sequence long, body binary")
    where = str(tmp_path / "table")
    assert delta.write_batch(rows, "query", 0, where, ("queue",))
    assert not delta.write_batch(rows, "query", 0, where, ("queue",))
    assert delta.write_batch(rows, "query", 1, where, ("queue",))
    assert delta.write_batch(rows, "another", 0, where, ("queue",)), "numbers are the query's own"
    assert DeltaTable(where).to_pyarrow_table().num_rows == 3
    assert delta.write_batch(rows.limit(0), "query", 2, where, ("queue",))
    assert delta.write_batch(rows, "query", 0, str(tmp_path / "flat"), ())
    assert DeltaTable(tmp_path / "flat").to_pyarrow_table().num_rows == 1


def test_a_table_of_an_earlier_release_keeps_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.createDataFrame([("q", 1, b"x")], "queue string, sequence long, body binary")
    assert delta.write_batch(before, "query", 0, str(tmp_path), ("queue",))
    schema = "queue string, sequence long, ingestion_time timestamp, body binary"
    later = spark.createDataFrame([("q", 2, None, b"y")], schema)
    assert delta.write_batch(later, "query", 1, str(tmp_path), ("queue",))
    delta.compact(str(tmp_path))
    rows = DeltaTable(tmp_path).to_pyarrow_table().sort_by("sequence")
    assert sorted(rows.column_names) == ["batch", "body", "queue", "sequence"]
    assert rows["body"].to_pylist() == [b"x", b"y"]


def test_days_beyond_the_retention_leave_the_table(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]
    rows = pa.table({"date": pa.array(days, pa.date32()), "queue": ["q"] * 3, "body": [b"0", b"1", b"2"]})
    write_deltalake(tmp_path, rows, partition_by=["date", "queue"])
    assert delta.expire(str(tmp_path), date(2026, 1, 2)) == 1
    assert numbers(DeltaTable(tmp_path).to_pyarrow_table()) == [1, 2]
    assert delta.expire(str(tmp_path), date(2026, 1, 2)) == 0
    assert numbers(DeltaTable(tmp_path, version=0).to_pyarrow_table()) == [0, 1, 2], "the files stay a while"
    assert delta.expire(str(tmp_path / "none"), date(2026, 1, 2)) == 0


def test_a_task_has_few_files_open(tmp_path: Path) -> None:
    rows = pa.record_batch({"queue": ["a", "b", "c", "a"], "body": [b"1", b"2", b"3", b"4"]})
    written = [
        row
        for part in table_files.write_files(iter([rows]), str(tmp_path), ("queue",), files_open_max=2)
        for row in part.to_pylist()
    ]
    assert sorted(row["partition"] for row in written) == [f'{{"queue": "{name}"}}' for name in "abc"]
    again = [
        row
        for part in table_files.write_files(iter([rows, rows]), str(tmp_path), ("queue",), files_open_max=2)
        for row in part.to_pylist()
    ]
    assert len(again) > 3, "a file that was closed to make room is followed by another"
    assert sum(row["messages"] for row in again) == 8


def test_a_directory_has_one_format(uri: str, tmp_path: Path) -> None:
    (tmp_path / "plain" / "date=1").mkdir(parents=True)
    (tmp_path / "plain" / "date=1" / "a.parquet").touch()
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    with pytest.raises(PipelineError, match="has Parquet files that are no table"):
        archive(None, options(uri, tmp_path / "plain"))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="is a table of the format delta: use --format delta"):
        archive(None, ArchiveOptions(uri, "q", str(tmp_path / "table")))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="writes to a directory that all"):
        archive(None, ArchiveOptions(uri, "q", "s3://bucket/a", file_format="delta"))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_driver_that_is_killed_leaves_each_message_once(uri: str, channel: Channel, tmp_path: Path) -> None:
    """Kill the driver when a batch is in the table and not yet in the query's own log."""
    count = 1_000
    publish(channel, QUEUES, range(count))
    table = tmp_path / "table"
    command = [sys.executable, "-m", "mirrormq.cli.main", "pipeline", "archive", "--uri", uri]
    command += ["--queues", r"delta\..*", "--to", str(table), "--format", "delta", "--master", "local[1]"]
    command += ["--conf", f"spark.driver.extraJavaOptions={SHORT_WORK}"]
    third = table / "_delta_log" / f"{2:020}.json"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--option", "maxMessagesPerTrigger=50", "--trigger", "10ms"],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 100
        while not third.exists():
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert DeltaTable(table).to_pyarrow_table().num_rows < count
        subprocess.run([*command, "--once", "--compact"], check=True, stdout=log, stderr=log, timeout=100)
    assert numbers(DeltaTable(table).to_pyarrow_table()) == list(range(count))
    assert all(channel.queue_delete(queue, if_empty=True).method.message_count == 0 for queue in QUEUES)
