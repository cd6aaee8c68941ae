"""Fixtures: a RabbitMQ cluster of two nodes for all files, a MirrorMQ cluster and a stand for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.testing import Cluster
from tests.brokers.rabbitmq_pair import RabbitPair
from tests.migration_processes.migration_stand import MigrationStand
from tests.needs import need_rabbitmq


@pytest.fixture(scope="package")
def blue() -> Iterator[RabbitPair]:
    """Old cluster: RabbitMQ 3.10.8 with mirrored queues."""
    need_rabbitmq()
    with RabbitPair() as pair:
        pair.mirror_all()
        yield pair


@pytest.fixture
def stand(tmp_path: Path, blue: RabbitPair) -> Iterator[MigrationStand]:
    """Migration from the old cluster to a new one."""
    with Cluster(nodes=2, mirror_all=True) as green:
        made = MigrationStand(tmp_path, blue, green)
        with made.proxy():
            try:
                yield made
            finally:
                made.stop()
