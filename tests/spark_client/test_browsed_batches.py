"""Batches of a browsing stream: each begins at its own offset, also when it is repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.browse import BrowseReader
from mirrormq.spark.source.plan import PARTITION_BYTES, RangePartition
from mirrormq.spark.source.queue_stream import Offset
from tests.brokers.mirrormq import MirrorMQ

QUEUES = ("browsed.a", "browsed.b")
ALL = ReadAllAvailable()


@pytest.fixture
def uri(mirrormq: MirrorMQ) -> str:
    return f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with pika.BlockingConnection(pika.URLParameters(f"{uri}?heartbeat=0")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
        for queue in QUEUES:
            channel.queue_delete(queue)


def publish(channel: Channel, queue: str, numbers: range) -> None:
    channel.queue_declare(queue)
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number)


def reader_of(uri: str, **more: str) -> BrowseReader:
    given = {"uri": uri, "queuePattern": r"browsed\..*", "mode": "browse", **more}
    return BrowseReader(source_options(given, streaming=True))


def read(reader: BrowseReader, start: Offset, end: Offset) -> dict[str, list[int]]:
    """Return the messages of a batch by queue, with offsets as the checkpoint has them."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    found: dict[str, list[int]] = {}
    for task in reader.partitions(start, end):
        for batch in reader.read(task):
            for row in batch.to_pylist():
                found.setdefault(row["queue"], []).append(int(row["body"]))
    return found


def test_a_repeated_first_batch_begins_where_it_began(uri: str, channel: Channel) -> None:
    """A driver that dies in the first batch reads the option again: `latest` is elsewhere by then."""
    publish(channel, QUEUES[0], range(5))
    first = reader_of(uri, startingOffsets="latest")
    begin = first.initialOffset()
    publish(channel, QUEUES[0], range(5, 9))
    end = first.latestOffset(begin, ALL)
    assert read(first, begin, end) == {QUEUES[0]: [5, 6, 7, 8]}
    first.stop()
    publish(channel, QUEUES[0], range(9, 12))
    restarted = reader_of(uri, startingOffsets="latest")
    assert read(restarted, restarted.initialOffset(), end) == {QUEUES[0]: [5, 6, 7, 8]}
    following = restarted.latestOffset(end, ALL)
    assert read(restarted, end, following) == {QUEUES[0]: [9, 10, 11]}
    assert restarted.latestOffset(following, ALL) == following, "nothing new is no batch"
    restarted.stop()


def test_a_repeated_batch_is_cut_as_before(uri: str, channel: Channel) -> None:
    """A sink numbers the rows of each partition. By the time of the repetition consumers have taken messages,
    and the option is another one."""

    def cut(reader: BrowseReader, end: Offset) -> list[object]:
        return [task.parts for task in reader.partitions(begin, end) if isinstance(task, RangePartition)]

    publish(channel, QUEUES[0], range(10, 70))
    publish(channel, QUEUES[1], range(10, 13))
    first = reader_of(uri, minPartitions="3")
    begin = first.initialOffset()
    end = json.loads(json.dumps(first.latestOffset(begin, ALL)))
    before = cut(first, end)
    assert len(before) >= 3 and end[QUEUES[0]]["bytes"] == 120
    for _ in range(7):
        channel.basic_get(QUEUES[0], auto_ack=True)
    again = reader_of(uri, minPartitions="7")
    assert cut(again, end) == before
    assert read(again, begin, end) == {QUEUES[0]: list(range(17, 70)), QUEUES[1]: [10, 11, 12]}
    large = {**end, QUEUES[0]: {**end[QUEUES[0]], "bytes": 9 * PARTITION_BYTES}}
    assert len(cut(again, large)) == 10, "the offset states the size, not the queue"
    for reader in (first, again):
        reader.stop()


def test_a_queue_that_comes_later_begins_at_its_own_offset(uri: str, channel: Channel) -> None:
    publish(channel, QUEUES[0], range(3))
    reader = reader_of(uri, startingOffsets=json.dumps({QUEUES[1]: 4}))
    begin = reader.initialOffset()
    assert list(begin) == [QUEUES[0]]
    publish(channel, QUEUES[1], range(1, 8))
    end = reader.latestOffset(begin, ALL)
    assert read(reader, begin, end) == {QUEUES[0]: [0, 1, 2], QUEUES[1]: [4, 5, 6, 7]}
    reader.stop()
    channel.queue_delete(QUEUES[1])
    latest = reader_of(uri, startingOffsets="latest")
    begin = latest.initialOffset()
    publish(channel, QUEUES[1], range(3))
    found = read(latest, begin, latest.latestOffset(begin, ALL))
    assert found == {QUEUES[1]: [0, 1, 2]}, "all messages of a new queue are new"
    latest.stop()


def test_a_queue_without_a_share_of_a_batch_is_not_read_again(uri: str, channel: Channel) -> None:
    for queue in QUEUES:
        publish(channel, queue, range(2))
    reader = reader_of(uri)
    seen: dict[str, list[int]] = {queue: [] for queue in QUEUES}
    start = reader.initialOffset()
    publish(channel, QUEUES[0], range(2, 8))
    while (end := reader.latestOffset(start, ReadMaxRows(3))) != start:
        for queue, numbers in read(reader, start, end).items():
            seen[queue] += numbers
        start = end
    assert seen == {QUEUES[0]: list(range(8)), QUEUES[1]: [0, 1]}
    reader.stop()


def test_an_offset_of_an_earlier_release_goes_on(uri: str, channel: Channel) -> None:
    publish(channel, QUEUES[0], range(9))
    reader = reader_of(uri)
    queue_id = reader.initialOffset()[QUEUES[0]]["id"]
    start, end = ({QUEUES[0]: {"next": next_, "id": queue_id}} for next_ in (4, 7))
    assert read(reader, start, end) == {QUEUES[0]: [3, 4, 5]}
    assert read(reader, end, reader.latestOffset(end, ALL)) == {QUEUES[0]: [6, 7, 8]}
    reader.stop()
