"""Live audit of a running cluster by its traces: lost messages are reported at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql import SparkSession

from mirrormq.spark.audit.trace import start_of
from mirrormq.spark.decode import json_body
from mirrormq.spark.jobs.audit_state import AuditState
from mirrormq.spark.jobs.live_audit import LiveAuditOptions, live_audit, seconds
from mirrormq.spark.pipeline_errors import PipelineError
from tests.brokers.mirrormq import MirrorMQ

QUEUES = ("live.good", "live.purged", "live.waiting", "live.again", "live.deleted")
PATIENCE_S = 90.0


@pytest.fixture
def channel(mirrormq: MirrorMQ, uri: str) -> Iterator[Channel]:
    # Without heartbeats: nobody reads from this connection while Spark is at work.
    connection = pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0"))
    channel = connection.channel()
    for queue in QUEUES:
        channel.queue_declare(queue, durable=True)
    mirrormq.control("trace_on")
    yield channel
    mirrormq.control("trace_off")
    for queue in QUEUES:
        channel.queue_delete(queue)
    connection.close()


class Run:
    """A live audit in a thread, stopped when a test has seen enough."""

    def __init__(self, spark: SparkSession, options: LiveAuditOptions) -> None:
        self.said: list[str] = []
        self.book: AuditState | None = None
        self.error: BaseException | None = None
        self._spark = spark
        self._options = options
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.until(lambda: any(query.lastProgress for query in spark.streams.active))

    def _run(self) -> None:
        try:
            self.book = live_audit(self._spark, self._options, self.said.append)
        except BaseException as error:
            self.error = error

    def until(self, seen: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not seen():
            assert self._thread.is_alive(), self.error
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def stop(self) -> AuditState:
        for query in self._spark.streams.active:
            query.stop()
        self._thread.join(PATIENCE_S)
        if self.error is not None:
            raise self.error
        assert self.book is not None
        return self.book


def publish(channel: Channel, queue: str, count: int) -> None:
    for number in range(count):
        channel.basic_publish("", queue, b"x", pika.BasicProperties(message_id=f"{queue}-{number}"))
    channel.queue_declare(queue, passive=True)


def act(channel: Channel) -> None:
    """One queue is consumed, one purged, one left alone, one gets a message back, one is deleted."""
    publish(channel, "live.good", 20)
    publish(channel, "live.purged", 3)
    publish(channel, "live.waiting", 2)
    publish(channel, "live.again", 1)
    publish(channel, "live.deleted", 4)
    for _ in range(20):
        assert channel.basic_get("live.good", auto_ack=True)[0] is not None
    first = channel.basic_get("live.again")[0]
    assert first is not None
    channel.basic_nack(first.delivery_tag, requeue=True)
    second = channel.basic_get("live.again", auto_ack=True)[0]
    assert second is not None and second.redelivered
    channel.queue_purge("live.purged")
    channel.queue_delete("live.deleted")


def test_messages_that_do_not_come_out_are_found(
    spark: SparkSession, uri: str, channel: Channel, tmp_path: Path
) -> None:
    report = tmp_path / "live.html"
    options = LiveAuditOptions(uri, r"live\..*", report, trigger="1s", grace="1s", state=tmp_path / "state")
    run = Run(spark, options)
    act(channel)
    run.until(lambda: run.said)
    assert run.said[0].startswith(
        "LOST: 3 messages of queue 'live.purged' published and not delivered, such as "
    )
    assert "live.purged-0" in run.said[0]
    run.until(
        lambda: (
            (found := newest(tmp_path / "state")) and found.totals["gone"] == 4 and found.totals["ok"] == 21
        )
    )
    book = run.stop()
    assert len(run.said) == 1, "each finding is told once"
    assert not book.passed
    counts = {name: {key: value for key, value in row.items() if value} for name, row in book.queues.items()}
    assert counts == {
        "live.good": {"published": 20, "ok": 20},
        "live.purged": {"published": 3, "lost": 3},
        "live.waiting": {"waiting": 2},
        "live.again": {"published": 1, "ok": 1, "duplicated": 1},
        "live.deleted": {"published": 4, "gone": 4},
    }
    text = report.read_text()
    assert "3 messages of queue &#x27;live.purged&#x27; published" in text

    publish(channel, "live.good", 1)
    assert channel.basic_get("live.waiting", auto_ack=True)[0] is not None
    again = Run(spark, options)
    again.until(lambda: (found := newest(tmp_path / "state")) and found.queues["live.good"]["waiting"] == 1)
    book = again.stop()
    followed = {key: value for key, value in book.queues["live.waiting"].items() if value}
    assert followed == {"out": 1, "waiting": 1}, "what comes out is told before it has left for good"
    assert again.said in ([], run.said), "only a batch that was not finished is told again"
    assert book.totals["lost"] == 3, "a run that goes on knows what was found"


def newest(state: Path) -> AuditState | None:
    numbers = [int(path.stem.removeprefix("book-")) for path in state.glob("book-*.json")]
    return AuditState.load(state, max(numbers)) if numbers else None


def test_without_traces_it_says_what_to_do(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PipelineError, match="no traces arrived: turn tracing on with mirrormqctl trace_on"):
        live_audit(spark, LiveAuditOptions(uri, duration="10s", trigger="1s", grace="1s"))


def test_a_body_that_is_no_text_is_shown_and_breaks_nothing(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"caf\xc3\xa9",), (b"\xff\x01{",), (b"",), (b'{"a": 1}',)], "body binary")
    shown = [row[0] for row in rows.select(start_of(rows["body"])).collect()]
    assert shown == ["café", "FF017B", "", '{"a": 1}']
    read = [row.value for row in json_body(rows, "a long").collect()]
    assert [value and value.a for value in read] == [None, None, None, 1]


def test_durations_are_seconds() -> None:
    assert [seconds(text) for text in ("10s", "500ms", "2 minutes", "1h")] == [10, 0.5, 120, 3600]
