"""Leases and queues that end while a query uses them: reported, handled as failOnDataLoss requires, never
silent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from mirrormq.ranges import range_limits
from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.jobs.query_progress import lag_of
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.browse import BrowseReader
from mirrormq.spark.source.consume import OWNER_PATIENCE_S, ConsumeReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.tasks import DataLoss
from tests.ranges.range_requests import Asker
from tests.spark.numbered import declared, publish

QUEUE = "leases.of"
ALL = ReadAllAvailable()
Start = Callable[..., ConsumeReader]


@pytest.fixture
def channel(uri: str) -> Iterator[Channel]:
    with declared(uri, (QUEUE,), "leases.more") as channel:
        yield channel


@pytest.fixture
def range_client(uri: str) -> Iterator[Asker]:
    range_client = Asker(uri)
    yield range_client
    range_client.close()


@pytest.fixture
def start(uri: str) -> Iterator[Start]:
    readers: list[ConsumeReader] = []

    def make(owner_patience_s: float = OWNER_PATIENCE_S, **options: str) -> ConsumeReader:
        given = source_options({"uri": uri, "queue": QUEUE, **options}, streaming=True)
        readers.append(ConsumeReader(given, owner_patience_s))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def plan(reader: ConsumeReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return found


def read(reader: ConsumeReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    found = []
    for partition in reader.partitions(start, end):
        assert isinstance(partition, RangePartition)
        for rows in reader.read(partition):
            found += [int(body) for body in rows.column("body").to_pylist()]
    return sorted(found)


def batch(
    reader: ConsumeReader, start: dict[str, Any], limit: ReadLimit = ALL
) -> tuple[dict[str, Any], list[int]]:
    end = plan(reader, start, limit)
    return end, read(reader, start, end)


def ready(channel: Channel) -> int:
    return int(channel.queue_declare(QUEUE, passive=True).method.message_count)


# -- deleted queues ---------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_queue_deleted_after_its_batch_is_no_loss(channel: Channel, start: Start, *, again: bool) -> None:
    """Delete the queue after its batch is processed and before it is settled."""
    publish(channel, (QUEUE, QUEUE), range(4))
    reader = start()
    first, found = batch(reader, reader.initialOffset())
    assert found == [0, 1, 2, 3]
    channel.queue_delete(QUEUE)
    if again:
        channel.queue_declare(QUEUE)
        publish(channel, (QUEUE, QUEUE), range(4, 6))
        for each in (reader, start()):
            after = plan(each, first)
        assert read(start(), first, after) == [4, 5]
    else:
        careless = start(failOnDataLoss="false")
        assert plan(careless, first) == first
        assert plan(careless, first) == first
        channel.queue_declare(QUEUE)
        publish(channel, (QUEUE, QUEUE), range(4, 6))
        assert batch(careless, first)[1] == [4, 5]


def test_a_deleted_queue_stops_a_query_that_asks_for_it(channel: Channel, start: Start) -> None:
    publish(channel, (QUEUE, QUEUE), range(4))
    reader = start()
    first, _ = batch(reader, reader.initialOffset())
    channel.queue_delete(QUEUE)
    with pytest.raises(DataLoss, match=f"queue '{QUEUE}' was deleted: set failOnDataLoss to false"):
        plan(reader, first)
    channel.queue_declare(QUEUE)
    assert plan(reader, first) == first, "it is not stopped for ever"


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_whose_queue_is_gone_follows_the_option(
    channel: Channel, start: Start, *, again: bool
) -> None:
    publish(channel, (QUEUE, QUEUE), range(9))
    reader = start()
    nothing = reader.initialOffset()
    first, _ = batch(reader, nothing, ReadMaxRows(4))
    second = plan(reader, first)
    partitions = reader.partitions(first, second)
    channel.queue_delete(QUEUE)
    if again:  # with other messages under the same sequences
        channel.queue_declare(QUEUE)
        publish(channel, (QUEUE, QUEUE), range(100, 150))
    for task in partitions:
        assert isinstance(task, RangePartition)
        with pytest.raises(DataLoss, match=r"leased messages of queue .* are gone"):
            list(reader.read(task))
        assert not list(start(failOnDataLoss="false").read(task))
    with pytest.raises(DataLoss, match=r"or queue .* was deleted, and the messages that this batch is about"):
        start().partitions(first, second)
    careless = start(failOnDataLoss="false")
    assert read(careless, first, second) == []
    if again:
        assert batch(careless, second)[1] == list(range(100, 150))


# -- missing queues ---------------------------------------------------------------------------------


def test_a_misspelt_queue_is_an_error_unless_it_is_waited_for(
    channel: Channel, uri: str, start: Start
) -> None:
    said = "there is no queue 'leases.off': declare it, correct the name, or set missingQueues to wait"
    for options in ({"queue": "leases.off"}, {"queue": "leases.off", "leaseName": "x"}):
        reader = start(**options)
        with pytest.raises(OptionError, match=said):
            reader.latestOffset(reader.initialOffset(), ALL)
    browsing = {"uri": uri, "queue": "leases.off", "mode": "browse"}
    with pytest.raises(OptionError, match=said):
        BrowseReader(source_options(browsing, streaming=True)).initialOffset()
    waiting = start(queue="leases.off", missingQueues="wait")
    nothing = plan(waiting, waiting.initialOffset())
    channel.queue_declare("leases.off", auto_delete=True)
    publish(channel, ("leases.off", "leases.off"), range(3))
    assert batch(waiting, nothing)[1] == [0, 1, 2]
    channel.queue_delete("leases.off")


# -- leases -----------------------------------------------------------------------------------------


def test_a_lease_is_renewed_while_a_batch_works(channel: Channel, start: Start) -> None:
    publish(channel, (QUEUE, QUEUE), range(4))
    reader = start(leaseIdleMs="1500")
    first, _ = batch(reader, reader.initialOffset())
    until_s = time.monotonic() + 4
    while time.monotonic() < until_s:
        assert ready(channel) == 0, "the lease has expired under a batch that works"
        time.sleep(0.1)
    assert plan(reader, first) == first
    assert ready(channel) == 0


def test_progress_has_bytes_and_the_age_of_the_lease(channel: Channel, start: Start) -> None:
    publish(channel, (QUEUE, QUEUE), range(10, 16))
    reader = start()
    said = reader.reportLatestOffset()
    assert (said["behind"], said["bytes_behind"], said["lease_age_s"]) == (6, 12, 0.0)
    nothing = reader.initialOffset()
    first = plan(reader, nothing, ReadMaxRows(4))
    said = reader.reportLatestOffset()
    assert (said["behind"], said["bytes_behind"]) == (2, 4), "without those that the batch is about to take"
    assert read(reader, nothing, first) == [10, 11, 12, 13]
    time.sleep(0.2)
    said = reader.reportLatestOffset()
    assert (said["behind"], said["bytes_behind"]) == (2, 4)
    assert 0.2 <= said["lease_age_s"] < 60
    assert lag_of({"sources": [{"latestOffset": json.dumps(said)}]}) == {
        "behind": 2, "bytes_behind": 4, "lease_age_s": said["lease_age_s"],
    }  # fmt: skip
    second, _ = batch(reader, first)
    assert plan(reader, second) == second
    assert reader.reportLatestOffset()["lease_age_s"] == 0.0, "everything is settled"
    assert lag_of({"sources": [{"latestOffset": None}]}) == {}


def test_a_stream_that_browses_begins_at_a_time(channel: Channel, uri: str) -> None:
    publish(channel, (QUEUE, QUEUE), range(3))
    time.sleep(0.05)
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    publish(channel, (QUEUE, QUEUE), range(3, 6))
    given = {"uri": uri, "queue": QUEUE, "mode": "browse", "startingTimestamp": str(between_ms)}
    reader = BrowseReader(source_options(given, streaming=True))
    nothing = reader.initialOffset()
    end = json.loads(json.dumps(reader.latestOffset(nothing, ALL)))
    found = []
    for partition in reader.partitions(nothing, end):
        found += [int(body) for rows in reader.read(partition) for body in rows.column("body").to_pylist()]
    assert found == [3, 4, 5]
    reader.stop()


def test_a_released_lease_is_reported_for_any_batch(
    channel: Channel, start: Start, range_client: Asker, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(channel, (QUEUE, QUEUE), range(4))
    reader = start()
    first, _ = batch(reader, reader.initialOffset())
    assert range_client.release(QUEUE, first["lease"]) == 4
    for each in (reader, start()):
        with pytest.raises(DataLoss, match="the messages of the last batch may be in the queue again"):
            plan(each, first)
    careless = start(failOnDataLoss="false")
    assert batch(careless, first)[1] == [0, 1, 2, 3]
    assert "WARN mirrormq: the lease 'spark-" in capsys.readouterr().err


def test_an_empty_lease_that_ended_is_no_loss(channel: Channel, start: Start, range_client: Asker) -> None:
    publish(channel, (QUEUE, QUEUE), range(4))
    reader = start()
    first, _ = batch(reader, reader.initialOffset())
    assert [lease.name for lease in range_client.leases(QUEUE)] == [first["lease"]]
    assert plan(reader, first) == first
    reader.stop()
    assert range_client.release(QUEUE, first["lease"]) == 0
    assert not range_client.leases(QUEUE)
    publish(channel, (QUEUE, QUEUE), range(4, 8))
    again = start()
    second, found = batch(again, first)
    assert found == [4, 5, 6, 7]
    again.stop()
    assert [lease.name for lease in range_client.leases(QUEUE)] == [first["lease"]], (
        "what it holds is not settled"
    )
    assert plan(start(), second) == second
    assert ready(channel) == 0


def test_two_queries_with_one_lease_name_get_an_error(channel: Channel, start: Start) -> None:
    publish(channel, (QUEUE, QUEUE), range(8))
    one, other = start(leaseName="same"), start(owner_patience_s=1.0, leaseName="same")
    first, found = batch(one, one.initialOffset(), ReadMaxRows(4))
    assert found == [0, 1, 2, 3]
    with pytest.raises(OptionError, match=f"the lease 'same' of queue '{QUEUE}' is in use by another query"):
        plan(other, other.initialOffset())
    second, found = batch(one, first)
    assert found == [4, 5, 6, 7]
    restarted = start(leaseName="same")
    assert read(restarted, first, second) == [4, 5, 6, 7], "its checkpoint names the owner"


def test_a_lease_whose_owner_is_silent_is_free(channel: Channel, start: Start) -> None:
    publish(channel, (QUEUE, QUEUE), range(8))
    died = start(leaseName="left")
    plan(died, died.initialOffset(), ReadMaxRows(4))
    assert died._renewal is not None
    died._renewal._over.set()
    began_s = time.monotonic()
    after = start(leaseName="left")
    assert batch(after, after.initialOffset(), ReadMaxRows(4))[1][:4] == [0, 1, 2, 3]
    assert time.monotonic() - began_s < 1.5 * range_limits.LEASE_OWNER_MS / 1000
