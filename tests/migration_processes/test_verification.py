"""Verification between two real nodes, in cases that are no difference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest

from mirrormq.migration.migration_records import Plan
from mirrormq.migration.phases import Phase, Step
from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.migration_io.migration_run import MigrationRun
from mirrormq.migration_io.migration_verify import Report, verify
from tests.bridge_processes.broker_messages import connected, publish
from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed

PATIENCE_S = 60.0


@pytest.fixture
def nodes() -> Iterator[tuple[MirrorMQ, MirrorMQ]]:
    with managed() as old, managed() as new:
        yield old, new


def planned(old: MirrorMQ, new: MirrorMQ, directory: Path) -> MigrationDirectory:
    files = MigrationDirectory(directory)
    http = [[f"http://guest:guest@127.0.0.1:{each.management_port}"] for each in (old, new)]
    amqp = [[f"amqp://127.0.0.1:{each.amqp_port}"] for each in (old, new)]
    files.create(Plan("now", "now", http[0], amqp[0], http[1], amqp[1], [], ["guest"], [], []))
    return files


async def migrated(files: MigrationDirectory, then: Callable[[], None] = lambda: None) -> Report:
    """Run a migration until it is drained, and do something then; return the verification."""
    running = asyncio.create_task(MigrationRun(files, files.plan(), lambda _: None).run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            for phase, step in (
                (Phase.FOLLOWING, Step.SWITCH_CONSUMERS),
                (Phase.MOVING, Step.SWITCH_PRODUCERS),
                (Phase.DRAINED, None),
            ):
                await reached(files, phase, running)
                if step is not None:
                    files.advance(step)
        await asyncio.to_thread(then)
        return await asyncio.to_thread(verify, files, files.plan(), lambda _: None)
    finally:
        running.cancel()
        await asyncio.wait((running,))


async def reached(files: MigrationDirectory, phase: Phase, running: asyncio.Task[Phase]) -> None:
    while files.state().phase is not phase:
        assert not running.done(), running.exception()
        await asyncio.wait((running,), timeout=0.1)


def test_messages_of_an_earlier_migration_do_not_count(
    nodes: tuple[MirrorMQ, MirrorMQ], tmp_path: Path
) -> None:
    old, new = nodes
    publish(old.amqp_port, "work", [str(number) for number in range(20)])
    earlier = connected(new.amqp_port)
    channel = earlier.channel()
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True)
    for number in (1, 2, 3):
        headers = {"x-producer": "migration:earlier-0f-1", "x-publish-id": number}
        channel.basic_publish("", "work", b"x", pika.BasicProperties(delivery_mode=2, headers=headers))
    earlier.close()
    report = asyncio.run(migrated(planned(old, new, tmp_path)))
    assert report.differences == []
    (row,) = report.rows
    assert (row.moved, row.arrived, row.repeats, row.digest) == (20, 20, 0, "equal")


def test_an_auto_delete_queue_that_its_last_consumer_has_left(
    nodes: tuple[MirrorMQ, MirrorMQ], tmp_path: Path
) -> None:
    old, new = nodes
    client = connected(old.amqp_port)
    client.channel().queue_declare("replies", durable=True, auto_delete=True)
    client.close()

    def consume_and_leave() -> None:
        consumer = connected(new.amqp_port)
        consumer.channel().basic_consume("replies", lambda *_: None)
        consumer.close()

    report = asyncio.run(migrated(planned(old, new, tmp_path), consume_and_leave))
    assert [(row.queue, row.digest) for row in report.rows] == [("replies", "gone")]
    assert report.differences == []
