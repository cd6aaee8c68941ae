"""Pruning: columns, bodies, queues and sequences that a query does not need do not travel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pika
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.spark.data_source_options import COLUMNS, source_columns, source_options
from mirrormq.spark.datasource import MirrorMQ as DataSource
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.browse import BatchReader, FilteringReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.pushed_filters import PLANNER, PushedFilters
from mirrormq.spark.source.row_schema import COLUMNS as TYPES
from tests.brokers.mirrormq import MirrorMQ

QUEUES = ("pruned.a", "pruned.b")
MESSAGES = 40
BODY = b"x" * 50_000


@pytest.fixture(scope="module")
def options(mirrormq: MirrorMQ) -> Iterator[dict[str, str]]:
    """Options of a reader for two queues of large messages."""
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    for queue in QUEUES:
        channel.queue_declare(queue, durable=True)
        for number in range(MESSAGES):
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
            channel.basic_publish("", queue, BODY, properties)
        channel.queue_declare(queue, passive=True)
    yield {"uri": uri, "queues": ",".join(QUEUES)}
    for queue in QUEUES:
        channel.queue_delete(queue)
    connection.close()


def read(reader: BatchReader) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for task in reader.partitions():
        assert isinstance(task, RangePartition)
        for batch in reader.read(task):
            rows += batch.to_pylist()
    return rows


def test_without_the_column_no_bodies_travel(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    received = 0
    events = BlockingClient.events

    def counted(self: BlockingClient, *arguments: Any) -> Any:
        nonlocal received
        found = events(self, *arguments)
        received += sum(len(getattr(event, "body", b"")) for event in found)
        return found

    monkeypatch.setattr(BlockingClient, "events", counted)
    pruned = read(BatchReader(source_options({**options, "columns": "message_id,queue"}, streaming=False)))
    assert pruned == [
        {"message_id": str(number), "queue": queue} for queue in QUEUES for number in range(MESSAGES)
    ]
    assert 0 < received < len(BODY)
    whole = read(BatchReader(source_options(options, streaming=False)))
    assert [row["body"] for row in whole] == [BODY] * 2 * MESSAGES
    assert received > 2 * MESSAGES * len(BODY)


def test_a_condition_on_the_ingestion_time_reaches_the_node(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read(BatchReader(source_options({**options, "columns": "queue,ingestion_time"}, streaming=False)))
    times = sorted({row["ingestion_time"] for row in rows})
    assert len(times) > 2, "a hundred times fifty kilobytes take some milliseconds"
    column = ("ingestion_time",)
    middle, last = times[len(times) // 2], times[-1]
    for filters, wanted in (
        ([GreaterThanOrEqual(column, middle)], lambda time: time >= middle),
        ([EqualTo(column, last)], lambda time: time == last),
        ([GreaterThan(column, last + timedelta(milliseconds=1))], lambda time: False),
        ([LessThan(column, datetime(1969, 1, 1, tzinfo=UTC))], lambda time: False),
        (
            [LessThanOrEqual(column, last), GreaterThanOrEqual(column, middle)],
            lambda time: middle <= time <= last,
        ),
    ):
        reader = FilteringReader(source_options(options, streaming=False))
        assert list(reader.pushFilters(list(filters))) == filters, "Spark applies them again"
        count = sum(wanted(row["ingestion_time"]) for row in rows)
        assert len(read(reader)) == count, filters
    # The bounds are whole milliseconds: what is between them is left to Spark.
    reader = FilteringReader(source_options(options, streaming=False))
    list(reader.pushFilters([LessThan(column, middle + timedelta(microseconds=500))]))
    assert len(read(reader)) == sum(row["ingestion_time"] <= middle for row in rows)
    naive = PushedFilters()
    assert not naive.accept(LessThan(column, datetime(2026, 1, 1)))
    assert not naive.accept(StringStartsWith(column, "2026")) and not naive.times.limited
    limited = source_options({**options, "startingTimestamp": last.isoformat()}, streaming=False)
    reader = FilteringReader(limited)
    list(reader.pushFilters([GreaterThanOrEqual(column, middle)]))
    assert len(read(reader)) == sum(row["ingestion_time"] == last for row in rows), "the later of both"


def test_columns_are_checked() -> None:
    assert tuple(TYPES.fieldNames()) == COLUMNS == source_columns({})
    assert source_columns({"columns": " body , queue"}) == ("body", "queue")
    without = tuple(name for name in COLUMNS if name not in ("headers", "properties"))
    assert source_columns({"includeProperties": "false"}) == without
    for given, said in (
        ({"columns": "routing-key"}, "'routing-key', which is no column: did you mean routing_key"),
        ({"columns": "offset"}, "no column; there are queue, sequence"),
        ({"columns": ""}, "'', which is no column"),
        ({"columns": "body,body"}, "body twice"),
        ({"columns": "body", "includeProperties": "true"}, "either columns or includeProperties"),
    ):
        with pytest.raises(OptionError, match=said):
            source_columns(given)


def test_filters_on_queue_and_sequence_are_applied(options: dict[str, str]) -> None:
    def found(*filters: Filter) -> list[tuple[str, int]]:
        reader = FilteringReader(source_options({**options, "columns": "queue,sequence"}, streaming=False))
        assert list(reader.pushFilters([*filters, other])) == [other]
        return [(row["queue"], row["sequence"]) for row in read(reader)]

    a, b = QUEUES
    other = StringStartsWith(("queue",), "pruned")
    assert found(EqualTo(("queue",), b), LessThanOrEqual(("sequence",), 2)) == [(b, 1), (b, 2)]
    assert found(GreaterThan(("sequence",), 38), LessThan(("sequence",), 40)) == [(a, 39), (b, 39)]
    assert found(In(("queue",), (a, "c")), EqualTo(("sequence",), 7)) == [(a, 7)]
    assert found(GreaterThanOrEqual(("sequence",), 40)) == [(a, 40), (b, 40)]
    assert found(EqualTo(("queue",), a), EqualTo(("queue",), b)) == []
    assert found(EqualTo(("sequence",), -1)) == []
    assert found(IsNotNull(("sequence",)), EqualTo(("sequence",), 3)) == [(a, 3), (b, 3)]


def test_other_filters_are_left_to_spark() -> None:
    for given in (IsNotNull(("headers",)), EqualTo(("body",), 1), EqualTo(("headers", "a"), "b")):
        assert not PushedFilters().accept(given)


def test_the_reader_has_the_method_only_where_spark_offers_filters(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a session without the setting would refuse the reader."""
    source = DataSource(options)
    assert type(source.reader(source.schema())) is BatchReader
    monkeypatch.setitem(sys.modules, PLANNER, pytest)
    assert type(source.reader(source.schema())) is FilteringReader
