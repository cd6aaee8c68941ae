"""The pytest plugin: fixture `mirrormq_node`, one node shared by the whole test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing.cluster import Cluster


@pytest.fixture(scope="session")
def mirrormq_node() -> Iterator[Cluster]:
    """A running node; `mirrormq_node.uri()` is where to connect."""
    with Cluster(nodes=1) as cluster:
        yield cluster
