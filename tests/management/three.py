"""Three nodes and a view of each one's API: whichever of them is asked, the answer is the cluster's.

A file of tests that wants the nodes configured has `CONF`, one that wants its queues mirrored `MIRROR_ALL`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing import Cluster
from tests.management.http import Client

NODES = 3


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The nodes, for a file of tests."""
    conf, mirror_all = getattr(request.module, "CONF", ""), getattr(request.module, "MIRROR_ALL", False)
    with Cluster(nodes=NODES, conf=conf, mirror_all=mirror_all) as started:
        yield started


@pytest.fixture(scope="module")
def clients(cluster: Cluster) -> list[Client]:
    """guest's view of each node's API."""
    return [Client(cluster.management_port(index)) for index in range(NODES)]
