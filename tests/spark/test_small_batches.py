"""Small batches wait for more messages (`minMessagesPerTrigger`), at most for `maxTriggerDelay`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source import queue_stream
from mirrormq.spark.source.browse import BrowseReader
from mirrormq.spark.source.consume import ConsumeReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.queue_stream import QueueStream
from tests.spark.numbered import declared, publish

QUEUES = ("small.a", "small.b")
ALL = ReadAllAvailable()


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, QUEUES, "small.more") as channel:
        yield channel


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time in seconds, of the streams only."""
    now_s = [1000.0]
    monkeypatch.setattr(queue_stream, "time", type("Time", (), {"monotonic": staticmethod(lambda: now_s[0])}))
    return now_s


def read(reader: QueueStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found: list[int] = []
    for task in reader.partitions(start, end):
        assert isinstance(task, RangePartition)
        for rows in reader.read(task):
            found += [int(body) for body in rows.column("body").to_pylist()]
    return sorted(found)


@pytest.mark.parametrize("kind", [ConsumeReader, BrowseReader])
def test_a_batch_waits_until_it_is_large_or_late(
    uri: str, channel: Channel, clock: list[float], kind: type[ConsumeReader | BrowseReader]
) -> None:
    mode = "consume" if kind is ConsumeReader else "browse"
    options = {"minMessagesPerTrigger": "10", "maxTriggerDelay": "30s", "mode": mode}
    given = {"uri": uri, "queues": ",".join(QUEUES), **options}
    reader = kind(source_options(given, streaming=True))
    begin = reader.initialOffset()
    publish(channel, QUEUES, range(6))
    assert reader.latestOffset(begin, ALL) == begin
    publish(channel, QUEUES, range(6, 11))
    large = reader.latestOffset(begin, ALL)
    assert read(reader, begin, large) == list(range(11))
    publish(channel, QUEUES, range(11, 14))
    clock[0] += 29
    assert reader.latestOffset(large, ALL) == large
    clock[0] += 1
    late = reader.latestOffset(large, ALL)
    assert read(reader, large, late) == [11, 12, 13]
    publish(channel, QUEUES, range(14, 15))
    assert reader.latestOffset(late, ALL) == late
    reader.prepareForTriggerAvailableNow()
    last = reader.latestOffset(late, ALL)
    assert read(reader, late, last) == [14]
    reader.stop()


def test_wrong_options_are_one_sentence(uri: str) -> None:
    for given, said in (
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay needs minMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "2", "maxTriggerDelay": "5 days"}, "a duration such as 30s or 15m"),
        ({"minMessagesPerTrigger": "2", "maxMessagesPerTrigger": "1"}, "is above maxMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "2", "broker": "rabbitmq"}, "is for readStream from MirrorMQ"),
    ):
        with pytest.raises(OptionError, match=said):
            source_options({"uri": uri, "queue": "q", **given}, streaming=True)
    with pytest.raises(OptionError, match="is for readStream from MirrorMQ"):
        source_options({"uri": uri, "queue": "q", "minMessagesPerTrigger": "2"}, streaming=False)
