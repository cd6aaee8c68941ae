"""First batch of a query: taken after its offset is in the checkpoint.

A failure before or after that leaves no message under an unknown lease name, and repeats none. The tests play
Spark's part, one call at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.consume import ConsumeReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.tasks import DataLoss
from tests.ranges.range_requests import Asker
from tests.spark.numbered import declared, drain, publish

QUEUES = ("first.a", "first.b")
ALL = ReadAllAvailable()
Start = Callable[..., ConsumeReader]


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, QUEUES, "first.more") as channel:
        yield channel


@pytest.fixture
def start(uri: str) -> Iterator[Start]:
    """Start a new process of the source, without the state of earlier ones."""
    readers: list[ConsumeReader] = []

    def make(**options: str) -> ConsumeReader:
        given = {"uri": uri, "queues": ",".join(QUEUES), **options}
        readers.append(ConsumeReader(source_options(given, streaming=True)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def written(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as it comes from the checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def plan(reader: ConsumeReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    return written(reader.latestOffset(start, limit))


def read(reader: ConsumeReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Return the messages that the tasks of a batch read."""
    found = []
    for partition in reader.partitions(start, end):
        assert isinstance(partition, RangePartition)
        for rows in reader.read(partition):
            found += [int(body) for body in rows.column("body").to_pylist()]
    return sorted(found)


def ready(channel: Channel) -> int:
    return sum(channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES)


def test_the_first_batch_has_messages(channel: Channel, start: Start) -> None:
    publish(channel, QUEUES, range(10))
    reader = start()
    reader.prepareForTriggerAvailableNow()
    nothing = reader.initialOffset()
    first = plan(reader, nothing)
    publish(channel, QUEUES, range(10, 14))
    assert read(reader, nothing, first) == list(range(10)), "what came later is for a later batch"
    assert read(reader, nothing, first) == list(range(10)), "Spark may ask for the partitions again"
    assert plan(reader, first) == first, "all that was there when the query began is done with"
    assert plan(reader, first) == first
    assert ready(channel) == 4


def test_a_job_killed_before_its_offset_is_written_has_taken_nothing(channel: Channel, start: Start) -> None:
    publish(channel, QUEUES, range(10))
    died = start()
    plan(died, died.initialOffset())
    assert ready(channel) == 10
    reader = start()
    first = plan(reader, reader.initialOffset())
    assert read(reader, reader.initialOffset(), first) == list(range(10))


@pytest.mark.parametrize("taken", [False, True])
def test_a_job_killed_after_its_offset_is_written_finds_the_messages_again(
    channel: Channel, start: Start, *, taken: bool
) -> None:
    publish(channel, QUEUES, range(10))
    died = start()
    nothing = died.initialOffset()
    first = plan(died, nothing, ReadMaxRows(6))
    if taken:
        assert len(read(died, nothing, first)) == 6
    again = start()
    again.prepareForTriggerAvailableNow()
    found = read(again, nothing, first)
    assert len(found) == 6, "as many as were to be taken, not more"
    assert ready(channel) == 4
    second = plan(again, first)
    assert sorted(found + read(again, first, second)) == list(range(10))
    assert plan(again, second) == second
    assert [channel.queue_delete(queue, if_empty=True).method.message_count for queue in QUEUES] == [0, 0]


def test_a_batch_is_empty_if_other_consumers_were_quicker(channel: Channel, start: Start) -> None:
    publish(channel, QUEUES, range(10))
    reader = start()
    nothing = reader.initialOffset()
    first = plan(reader, nothing)
    assert len([body for queue in QUEUES for body in drain(channel, queue)]) == 10
    assert read(reader, nothing, first) == []
    assert plan(reader, first) == first
    publish(channel, QUEUES, range(10, 20))
    restarted = start()
    second = plan(restarted, first)
    assert read(restarted, first, second) == list(range(10, 20))


def test_a_lease_that_ended_while_no_node_ran_is_reported(channel: Channel, start: Start) -> None:
    publish(channel, QUEUES, range(4))
    reader = start(leaseIdleMs="1", leaseName="short")
    nothing = reader.initialOffset()
    first = plan(reader, nothing)
    assert read(reader, nothing, first) == list(range(4))
    deadline = time.monotonic() + 30
    while ready(channel) < 4:
        assert time.monotonic() < deadline, "the lease does not end"
        time.sleep(0.1)
    with pytest.raises(DataLoss, match="was idle for too long, and the messages of the last batch may be in"):
        plan(start(leaseName="short"), first)
    careless = start(leaseName="short", failOnDataLoss="false")
    second = plan(careless, first)
    assert read(careless, first, second) == list(range(4)), "it goes on, and they come again"


@pytest.fixture
def batch(channel: Channel, start: Start, uri: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return start and end of a batch for which the lease has other messages under the same number. A
    partition can cause that; here the test releases the lease and takes again."""
    queue = QUEUES[0]
    reader = start(leaseName="job", queues=queue)
    publish(channel, (queue, queue), range(20))
    first = plan(reader, reader.initialOffset(), ReadMaxRows(2))
    second = plan(reader, first, ReadMaxRows(3))
    assert read(reader, first, second) == [2, 3, 4]
    range_client = Asker(uri)
    range_client.release(queue, "job")
    channel.basic_get(queue, auto_ack=True)
    assert range_client.take(queue, "job", 2, 99)
    range_client.close()
    return first, second


def test_only_what_was_read_is_settled(start: Start, batch: tuple[dict[str, Any], dict[str, Any]]) -> None:
    reader = start(leaseName="job", queues=QUEUES[0])
    after = plan(reader, batch[1])
    assert read(reader, batch[1], after) == list(range(3, 20)), "the others were in the queue again"
    assert plan(reader, after) == after


def test_a_batch_that_the_lease_no_longer_has_is_reported(
    start: Start, batch: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    with pytest.raises(DataLoss, match=f"has other messages of queue '{QUEUES[0]}' than this batch had"):
        read(start(leaseName="job", queues=QUEUES[0]), *batch)
    careless = start(leaseName="job", queues=QUEUES[0], failOnDataLoss="false")
    assert read(careless, *batch) == []
    after = plan(careless, batch[1])
    assert read(careless, batch[1], after) == list(range(3, 20))
