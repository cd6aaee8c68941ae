"""Connections of the sink: tasks of one process share them, also after a node has closed them."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pyarrow as pa
import pytest

from mirrormq.spark.client import connection_pool, spark_publisher
from mirrormq.spark.client.spark_connection import SparkConnection
from mirrormq.spark.client.spark_publisher import NotRouted
from mirrormq.spark.data_source_options import SinkOptions, sink_options
from mirrormq.spark.sink.row_publishing import PublishedRows, SinkTask, publish
from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SparkConnection]]:
    """Connections that the client has opened."""
    found: list[SparkConnection] = []
    connect = SparkConnection.__init__

    def connects(self: SparkConnection, *arguments: object) -> None:
        found.append(self)
        connect(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkConnection, "__init__", connects)
    close_idle()
    yield found
    close_idle()


def close_idle() -> None:
    connection_pool.range_clients.close()
    spark_publisher.idle_publishers.close()


@contextmanager
def queue_of(port: int) -> Iterator[tuple[SinkOptions, list[str]]]:
    """Options of a write to a queue, and a list that has its messages afterwards."""
    uri = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
    with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        found: list[str] = []
        yield sink_options({"uri": uri, "routingKey": queue}), found
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2].decode())


def task(options: SinkOptions, write: str, partition: int, *rows: str) -> None:
    batch = pa.RecordBatch.from_pydict({"body": list(rows)})
    unit = SinkTask(write, 0, partition)
    assert publish(options, iter([batch]), unit, keeps_connections=True) == PublishedRows(len(rows))


def test_tasks_of_a_process_share_two_connections(mirrormq: MirrorMQ, opened: list[SparkConnection]) -> None:
    write = uuid.uuid4().hex
    with queue_of(mirrormq.amqp_port) as (options, found):
        for partition in range(20):
            task(options, write, partition, f"{partition}a", f"{partition}b")
        assert len(opened) == 2, "one for announcements, one for messages"
        task(options, write, 3, "3a", "3b")
    assert found == [f"{partition}{row}" for partition in range(20) for row in "ab"]


def test_a_connection_that_was_closed_meanwhile_is_replaced(
    mirrormq: MirrorMQ, opened: list[SparkConnection]
) -> None:
    write = uuid.uuid4().hex
    with queue_of(mirrormq.amqp_port) as (options, found):
        task(options, write, 0, "a")
        for connection in opened:
            connection.drop()
        task(options, write, 1, "b")
        assert len(opened) == 4
        for connection in opened[2:]:  # as a node that ends, and a firewall that forgets
            connection._client.socket.shutdown(socket.SHUT_RDWR)
        task(options, write, 2, "c", "d")
        assert len(opened) == 6
    assert found == ["a", "b", "c", "d"]


def test_a_failed_task_leaves_no_connection_behind(mirrormq: MirrorMQ, opened: list[SparkConnection]) -> None:
    write = uuid.uuid4().hex
    with queue_of(mirrormq.amqp_port) as (options, found):
        task(options, write, 0, "a")
        nowhere = sink_options(
            {"uri": f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F", "routingKey": "nowhere"}
        )
        with pytest.raises(NotRouted):
            task(nowhere, write, 1, "lost")
        task(options, write, 2, "b")
        assert len(opened) == 3, "the failed task's connection for messages is not used again"
    assert found == ["a", "b"]
