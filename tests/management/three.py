"""Fixtures: three nodes and a client of each node's API.

A test file sets `CONF` to configure the nodes, and `MIRROR_ALL` to mirror its queues.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing import Cluster
from tests.management.http import Client

NODES = 3


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Nodes of a file of tests."""
    conf, mirror_all = getattr(request.module, "CONF", ""), getattr(request.module, "MIRROR_ALL", False)
    with Cluster(nodes=NODES, conf=conf, mirror_all=mirror_all) as started:
        yield started


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> list[Client]:
    """API client of the user guest for each node."""
    return [Client(cluster.management_port(index)) for index in range(NODES)]
