"""Traces and events are counted in windows, once, with the age that messages had when they were delivered."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pika
import pytest
from pyspark.sql import SparkSession

from mirrormq.spark.jobs.stats import StatsOptions, stats
from mirrormq.spark.jobs.timing import APART_MS_MAX, times_of
from mirrormq.spark.pipeline_errors import PipelineError
from tests.brokers.mirrormq import MirrorMQ
from tests.waiting import until

COUNT = 20
AGES_S = (0.05, 0.4)
PATIENCE_S = 90.0


@pytest.fixture
def uri(mirrormq: MirrorMQ) -> Iterator[str]:
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    mirrormq.control("trace_on")
    yield uri
    mirrormq.control("trace_off")
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    connection.channel().queue_delete("stats.test")
    connection.close()


def flow(uri: str, queue: str, age_s: float) -> list[float]:
    """Publish and, after some time, get; how old the messages were, in milliseconds."""
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare(queue)
    ages_ms = []
    for _ in range(COUNT):
        stamp_ms = int(time.time() * 1000)
        properties = pika.BasicProperties(headers={"timestamp_in_ms": stamp_ms})
        channel.basic_publish("", queue, b"x" * 50, properties)
        time.sleep(age_s)
        asked_ms = time.time() * 1000
        assert channel.basic_get(queue, auto_ack=True)[0] is not None
        ages_ms.append((asked_ms + time.time() * 1000) / 2 - stamp_ms)
    channel.queue_delete(queue)
    connection.close()
    return ages_ms


def test_publishes_and_deliveries_are_counted_and_timed(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    options = StatsOptions(uri, str(tmp_path), window="1s", trigger="500ms", queue="stats.test")
    counting = threading.Thread(target=stats, args=(spark, options))
    counting.start()
    queues = {f"stats.{age_s}": age_s for age_s in AGES_S}
    try:
        until(lambda: any(query.lastProgress for query in spark.streams.active))
        measured = {queue: flow(uri, queue, age_s) for queue, age_s in queues.items()}

        def rows() -> list[dict[str, object]]:
            if not list(tmp_path.glob("windows/date=*")):
                return []
            return [row.asDict() for row in spark.read.parquet(str(tmp_path / "windows")).collect()]

        until(lambda: sum(int(str(row["messages"])) for row in rows() if row["queue"] in queues) == 4 * COUNT)
    finally:
        for query in spark.streams.active:
            query.stop()
        counting.join(PATIENCE_S)
    for queue, actual in measured.items():
        mine = [row for row in rows() if row["queue"] == queue]
        assert {row["node"] for row in mine} == {"mirror1@localhost"}
        assert sum(int(str(row["bytes"])) for row in mine if row["kind"] == "published") == COUNT * 50
        ages = [row["age_ms_p50"] for row in mine if row["kind"] == "delivered"]
        assert {row["age_ms_p50"] for row in mine if row["kind"] == "published"} == {None}
        found = statistics.median(float(str(age)) for age in ages if age is not None)
        assert found == pytest.approx(statistics.median(actual), abs=60), (ages, actual)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["written"] > 0
    assert {row["queue"] for row in summary["windows"]} <= {*queues, None}


def test_traces_from_before_the_job_are_counted_without_ages(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    options = StatsOptions(uri, str(tmp_path), window="1s", once=True, queue="stats.test")
    stats(spark, options)  # from now on traces are kept
    flow(uri, "stats.before", 0)
    time.sleep(2 * APART_MS_MAX / 1000)  # no ticks for so long that there is no exact time between them
    assert stats(spark, options) >= 2 * COUNT
    time.sleep(3.5)  # longer than a window waits for what is late
    flow(uri, "stats.after", 0)
    stats(spark, options)
    rows = spark.read.parquet(str(tmp_path / "windows")).where("queue = 'stats.before'").collect()
    # They lie somewhere between the last tick before and the first one after, in one window or in several.
    counts = {
        kind: sum(row.messages for row in rows if row.kind == kind) for kind in {row.kind for row in rows}
    }
    assert counts == {"published": COUNT, "delivered": COUNT}
    assert {row.age_ms_p50 for row in rows} == {None}


def test_a_place_between_two_ticks_has_a_time_between_theirs() -> None:
    nothing = np.nan
    times, exact = times_of(np.array([nothing, 100, nothing, nothing, nothing, 120, nothing]), None)
    assert times.tolist() == [100, 100, 105, 110, 115, 120, 120]
    assert exact.tolist() == [False, False, True, True, True, True, False]
    times, exact = times_of(np.array([nothing, 100.0]), 98)
    assert (times.tolist(), exact.tolist()) == ([99, 100], [True, True])
    assert np.isnan(times_of(np.array([nothing, nothing]), None)[0]).all()
    far = 100.0 + APART_MS_MAX + 1
    assert times_of(np.array([nothing, far]), 100)[1].tolist() == [False, False]


def test_wrong_options_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="must be a directory of this machine"):
        stats(None, StatsOptions("amqp://h", "s3://bucket/x"))  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="must begin with amqp://"):
        stats(None, StatsOptions("http://h", str(tmp_path)))  # type: ignore[arg-type]
