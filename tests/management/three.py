"""Three nodes and a view of each one's API: whichever of them is asked, the answer is the cluster's.

A file of tests that wants the nodes configured has `CONF`, one that wants its queues mirrored `MIRROR_ALL`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrormq.testing import Cluster
from tests.management.http import Client

NODES = 3
DEADLINE_S = 40.0


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.1)
    return found


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
