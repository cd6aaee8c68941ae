"""A query over a hundred queues: one round trip for all of them, one task, one connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirrormq.spark.client import connection_pool
from mirrormq.spark.client.node_selection import REQUEST_TIMEOUT_S, STAGGER_S
from mirrormq.spark.client.spark_connection import SparkConnection
from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.consume import ConsumeReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.queue_stream import Offset
from tests.brokers.mirrormq import MirrorMQ

QUEUES = [f"many.{number:03}" for number in range(100)]
ALL = ReadAllAvailable()
SENDS, WAITS = "s", "w"


class Traffic:
    """Sends and waits of this thread's connections, in order. Threads of earlier tests may still renew
    leases."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.steps = ""
        self.used: set[SparkConnection] = set()
        self.timeouts: list[float] = []

    @property
    def counts(self) -> bool:
        """Whether the running thread is the one that is observed."""
        return threading.get_ident() == self._thread

    def round_trips(self) -> int:
        """Count the waits that follow a send, and begin anew."""
        found, self.steps = self.steps.count(SENDS + WAITS), ""
        return found


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    found = Traffic()
    send, wait = SparkConnection.send, SparkConnection.receives_within

    def sends(self: SparkConnection, data: bytes) -> None:
        if found.counts:
            found.steps += SENDS
            found.used.add(self)
        send(self, data)

    def waits(self: SparkConnection, timeout_s: float) -> bool:
        if found.counts:
            found.steps += WAITS
            found.timeouts.append(timeout_s)
        # A busy machine may be silent for half a second, which is no reason to try another node here.
        return wait(self, timeout_s if timeout_s < STAGGER_S else REQUEST_TIMEOUT_S)

    monkeypatch.setattr(SparkConnection, "send", sends)
    monkeypatch.setattr(SparkConnection, "receives_within", waits)
    monkeypatch.setattr("mirrormq.spark.source.renewal.INTERVAL_MIN_S", 3600.0)
    connection_pool.range_clients.close()
    return found


@pytest.fixture
def channel(mirrormq: MirrorMQ) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(
        pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F?heartbeat=0")
    )
    opened = connection.channel()
    for queue in QUEUES:
        opened.queue_declare(queue, durable=True)
    yield opened
    for queue in QUEUES:
        opened.queue_delete(queue)
    connection.close()


def test_deleted_queues_leave_the_offset(
    mirrormq: MirrorMQ, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    """Queues of a day or of a client come and go for years, and each offset is written to the checkpoint."""
    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    reader = ConsumeReader(source_options({"uri": uri, "queuePattern": r"day\..*"}, streaming=True))
    start = reader.initialOffset()
    days = [f"day.{number % 12}" for number in range(24)]  # each name comes twice
    for number, day in enumerate(days):
        channel.queue_declare(day)
        channel.basic_publish("", day, b"%d" % number)
        channel.queue_declare(day, passive=True)
        end = json.loads(json.dumps(reader.latestOffset(start, ALL)))
        found = [
            int(body)
            for task in reader.partitions(start, end)
            for rows in reader.read(task)
            for body in rows.column("body").to_pylist()
        ]
        assert found == [number]
        assert len(end["queues"]) <= 2
        assert reader._renewal is not None and set(reader._renewal._leases) <= set(end["queues"])
        start = end
        if number:
            channel.queue_delete(days[number - 1])
    channel.queue_delete(days[-1])
    assert reader.latestOffset(start, ALL) == start, "a deletion alone is no batch"
    reader.stop()


def test_a_batch_of_a_hundred_queues_takes_few_round_trips(
    mirrormq: MirrorMQ, channel: pika.adapters.blocking_connection.BlockingChannel, traffic: Traffic
) -> None:
    def publish(round_: int) -> None:
        for number, queue in enumerate(QUEUES):
            channel.basic_publish("", queue, b"%d" % (round_ * 1000 + number))
        channel.queue_declare(QUEUES[0], passive=True)

    def read(start: Offset, end: Offset) -> list[int]:
        [task] = reader.partitions(start, end)
        assert isinstance(task, RangePartition)
        assert traffic.round_trips() == (1 if "first" in end else 0)  # takes of the first batch
        found = [int(body) for rows in reader.read(task) for body in rows.column("body").to_pylist()]
        traffic.round_trips()
        return found

    uri = f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F"
    reader = ConsumeReader(source_options({"uri": uri, "queues": ",".join(QUEUES)}, streaming=True))
    publish(0)
    begin = reader.initialOffset()
    first = reader.latestOffset(begin, ALL)
    assert traffic.round_trips() == 1  # extents
    assert read(begin, first) == list(range(100))
    used = set(traffic.used)

    publish(1)
    second = reader.latestOffset(first, ALL)
    # Settlement of the first batch, extents, state of the leases, takes.
    assert traffic.round_trips() == 4
    traffic.timeouts.clear()
    assert read(first, second) == list(range(1000, 1100))
    # The node of an idle connection may be frozen: the task tries another one early, but only at first.
    assert (traffic.timeouts[0], traffic.timeouts[-1]) == (STAGGER_S, REQUEST_TIMEOUT_S / 5)
    assert traffic.used == used  # the second task uses the connection of the first

    publish(2)
    third = reader.latestOffset(second, ALL)
    assert traffic.round_trips() == 3  # settlement, extents, takes
    assert read(second, third) == list(range(2000, 2100))
    reader.commit(third)
    reader.stop()
    assert [channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES] == [0] * 100
