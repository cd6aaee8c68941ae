"""Publish ids of a migration: those of another one do not count, and none is forgotten with its producer."""

from __future__ import annotations

from pathlib import Path

from mirrormq import limits
from mirrormq.migration.comparison import Arrived
from mirrormq.migration.migration_records import Plan
from mirrormq.migration_io.arrivals import Arrivals
from mirrormq.migration_io.migration_directory import MigrationDirectory
from mirrormq.queues.publish_ids import SeenPublishIds

QUEUE = ("/", "work")
PLAN = Plan("aa11", "now", [], [], [], [], [], [], [], [])


def test_a_producer_that_the_cluster_has_forgotten_still_counts(tmp_path: Path) -> None:
    files = MigrationDirectory(tmp_path)
    table = SeenPublishIds()
    first, second = "x-producer:migration:aa11-0f-1:", "x-producer:migration:aa11-0f-2:"
    table.record({first: 400}, now_ms=0)
    arrivals = Arrivals(files, PLAN)
    assert arrivals.observe(QUEUE, table) == Arrived(400, 1)
    arrivals.save()
    assert table.record({second: 100}, now_ms=limits.PRODUCER_IDLE_MS + 1) == [first]
    arrivals = Arrivals(files, PLAN)
    assert arrivals.observe(QUEUE, table) == Arrived(500, 2)
    assert arrivals.observe(QUEUE, {second: 130}) == Arrived(530, 2)
    assert arrivals.observe(QUEUE, {second: 120}) == Arrived(530, 2), (
        "the reply of a mirror behind its master"
    )


def test_an_earlier_migration_and_a_clients_publish_ids_do_not_count(tmp_path: Path) -> None:
    arrivals = Arrivals(MigrationDirectory(tmp_path), PLAN)
    others = {"x-producer:migration:bb22-0f-1:": 5, "x-producer:mine:": 7, "rabbit@host#1": 9}
    assert arrivals.observe(QUEUE, others) == Arrived(0, 0)
