"""Archive as an Iceberg table: each batch is added once, and any reader can read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from mirrormq.spark.jobs import iceberg
from mirrormq.spark.jobs.archive import ArchiveOptions, archive, check
from mirrormq.spark.jobs.replay import ReplayOptions, replay
from mirrormq.spark.pipeline_errors import PipelineError
from tests.spark.numbered import declared, drain, publish

QUEUES = ("iceberg.a", "iceberg.b/ü:%20=[x]")
AGAIN = "iceberg.again"


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, QUEUES, AGAIN) as channel:
        yield channel


def options(uri: str, to: Path, *, once: bool = True, **source: str) -> ArchiveOptions:
    return ArchiveOptions(
        uri, r"iceberg\..*", str(to), once=once, source=source, file_format="iceberg",
        typed_headers=bool(source.pop("typed", "")),
    )  # fmt: skip


def table_of(directory: Path) -> StaticTable:
    """Return the table as a reader without our catalogue finds it."""
    newest = max((directory / "metadata").glob("*.metadata.json"), key=lambda path: path.name)
    found: StaticTable = StaticTable.from_metadata(f"file://{newest}")
    return found


def numbers(directory: Path) -> list[int]:
    return sorted(int(body) for body in table_of(directory).scan().to_arrow()["body"].to_pylist())


def test_queues_become_a_table_that_others_read_and_that_is_replayed(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    publish(channel, QUEUES, range(20), day=1)
    assert archive(spark, options(uri, tmp_path, maxMessagesPerTrigger="5")) == 20
    publish(channel, QUEUES, range(20, 30), day=2)
    # A later run has one column more.
    assert archive(spark, options(uri, tmp_path, typed="yes")) == 10
    spark.conf.unset("spark.sql.session.timeZone")
    assert numbers(tmp_path) == list(range(30))
    table = table_of(tmp_path)
    assert [field.name for field in table.spec().fields] == ["date", "queue"]
    rows = table.scan(row_filter=f"queue == '{QUEUES[1]}'").to_arrow()
    assert sorted(int(body) for body in rows["body"].to_pylist()) == list(range(1, 30, 2))
    typed = dict(zip(rows["body"].to_pylist(), rows["headers_typed"].to_pylist(), strict=True))
    assert typed[b"7"] is None and dict(typed[b"27"])["n"] == {"type": "longstr", "value": "27"}
    times = rows["ingestion_time"].to_pylist()
    files = len(list(table.scan(row_filter=f"queue == '{QUEUES[1]}'").plan_files()))
    assert files < len(list(table.scan().plan_files())), "the partition prunes files"
    assert all(time is not None and time.tzname() == "UTC" for time in times)

    channel.queue_declare(AGAIN, durable=True)
    asked = ReplayOptions(uri, str(tmp_path), where=f"queue = '{QUEUES[1]}'", queue=AGAIN)
    assert replay(spark, asked) == 15
    assert replay(spark, asked) == 0
    assert sorted(map(int, drain(channel, AGAIN))) == list(range(1, 30, 2))


def test_a_batch_that_is_run_again_is_added_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("q", 1, b"x")], "queue string, sequence long, body binary")
    where = str(tmp_path / "ü %20 table")
    assert iceberg.write_batch(rows, "query", 0, where, ("queue",))
    assert not iceberg.write_batch(rows, "query", 0, where, ("queue",))
    assert iceberg.write_batch(rows, "query", 1, where, ("queue",))
    assert iceberg.write_batch(rows, "another", 0, where, ("queue",)), "numbers are the query's own"
    assert iceberg.write_batch(rows.limit(0), "query", 2, where, ("queue",))
    assert not iceberg.write_batch(rows, "query", 2, where, ("queue",)), "an empty batch counts"
    assert table_of(Path(where)).scan().to_arrow().num_rows == 3
    assert iceberg.read_table(spark, where).select("body").collect() == [(bytearray(b"x"),)] * 3
    assert iceberg.write_batch(rows, "query", 0, str(tmp_path / "flat"), ())
    assert table_of(tmp_path / "flat").scan().to_arrow().num_rows == 1


def test_files_of_a_batch_are_on_disk_when_it_is_added(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([("q", 1, b"x")], "queue string, sequence long, body binary")
    synced: set[str] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert iceberg.write_batch(rows, "query", 0, str(tmp_path), ("queue",))
    written = {str(path) for path in (tmp_path / "metadata").iterdir()}
    assert len(written) >= 4, "two states of the table, a list and a manifest"
    assert written | {str(tmp_path / "metadata")} <= synced


@pytest.mark.parametrize(("other", "is_added"), [("query", False), ("another", True)])
def test_a_batch_is_added_once_beside_another_writer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, is_added: bool
) -> None:
    """Another driver of the query, or another query, adds a batch while this one is about to."""
    where = str(tmp_path)
    rows = spark.createDataFrame([("q", 1, b"x")], "queue string, sequence long, body binary")
    assert iceberg.write_batch(rows, "query", 0, where, ())
    real = iceberg.add

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(iceberg, "add", real)
        assert iceberg.write_batch(rows, other, 1, where, ())
        real(*arguments)

    monkeypatch.setattr(iceberg, "add", late)
    assert iceberg.write_batch(rows, "query", 1, where, ()) == is_added
    assert table_of(tmp_path).scan().to_arrow().num_rows == 2 + is_added
    assert not iceberg.write_batch(rows, "query", 1, where, ())


def test_a_directory_has_one_format(uri: str, tmp_path: Path) -> None:
    (tmp_path / iceberg.CATALOGUE).touch()
    for file_format in ("parquet", "delta"):
        with pytest.raises(PipelineError, match="is a table of the format iceberg: use --format iceberg"):
            check(ArchiveOptions(uri, ".*", str(tmp_path), file_format=file_format))
    for more in ({"compact": True}, {"retention": "30d"}):
        with pytest.raises(PipelineError, match="your Iceberg engine's maintenance"):
            check(ArchiveOptions(uri, ".*", str(tmp_path), file_format="iceberg", **more))
