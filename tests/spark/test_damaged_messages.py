"""Leased messages whose records are damaged: a task waits for their repair, and reports those that no disk
has."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.consume import ConsumeReader
from mirrormq.spark.source.plan import RangePartition
from mirrormq.spark.source.tasks import DataLoss
from mirrormq.testing import Cluster

QUEUE = "damaged"
COUNT = 40
DAMAGED = 17


def body(number: int) -> bytes:
    return b"%d:" % number + b"." * 100


def reader(cluster: Cluster, **options: str) -> ConsumeReader:
    uris = ",".join(cluster.uri(index) for index in range(len(cluster.local.nodes)))
    return ConsumeReader(source_options({"uri": uris, "queue": QUEUE, **options}, streaming=True))


def taken(cluster: Cluster) -> dict[str, Any]:
    """Publish messages and take them; return the offset of the batch."""
    connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    for number in range(COUNT):
        channel.basic_publish("", QUEUE, body(number), pika.BasicProperties(delivery_mode=2))
    connection.close()
    taking = reader(cluster)
    nothing = taking.initialOffset()
    first: dict[str, Any] = json.loads(json.dumps(taking.latestOffset(nothing, ReadAllAvailable())))
    taking.partitions(nothing, first)
    taking.stop()
    return first


def damage(cluster: Cluster, index: int) -> None:
    """Flip a bit in the body of a message on the disk of a stopped node."""
    for path in (cluster.directory / cluster.name(index)).rglob("*.journal"):
        content = bytearray(path.read_bytes())
        at = content.find(body(DAMAGED))
        if at >= 0:
            content[at + 50] ^= 0x10
            path.write_bytes(content)
            return
    raise AssertionError("the message is not on disk")


def numbers(found: ConsumeReader, end: dict[str, Any]) -> list[int]:
    """Return the messages that the tasks of the batch read."""
    read = []
    for partition in found.partitions(found.initialOffset(), end):
        assert isinstance(partition, RangePartition)
        for rows in found.read(partition):
            read += [int(each.partition(b":")[0]) for each in rows.column("body").to_pylist()]
    return sorted(read)


def test_a_message_that_no_disk_has_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with Cluster() as cluster:
        first = taken(cluster)
        cluster.stop(0)
        damage(cluster, 0)
        cluster.start(0)
        with pytest.raises(DataLoss, match=f"1 leased messages of queue '{QUEUE}' are gone: .*no disk has"):
            numbers(reader(cluster), first)
        capfd.readouterr()
        careless = reader(cluster, failOnDataLoss="false")
        assert numbers(careless, first) == [number for number in range(COUNT) if number != DAMAGED]
        assert f"WARN mirrormq: 1 leased messages of queue '{QUEUE}' are gone" in capfd.readouterr().err
        careless.stop()


def test_a_task_waits_for_the_repair_of_a_message(tmp_path: Path) -> None:
    """The only node with a good copy is down when the task reads, and comes back meanwhile."""
    with Cluster(nodes=2, mirror_all=True) as cluster:
        first = taken(cluster)
        cluster.stop(1)
        cluster.stop(0)
        damage(cluster, 0)
        cluster.start(0)
        found: list[list[int]] = []
        again = reader(cluster)
        task = threading.Thread(target=lambda: found.append(numbers(again, first)))
        task.start()
        task.join(2)
        assert task.is_alive(), "the message is left out, or the read was refused for good"
        cluster.start(1)
        task.join(50)
        assert found == [list(range(COUNT))]
        again.stop()
