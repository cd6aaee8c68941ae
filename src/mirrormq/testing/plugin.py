"""Pytest plugin: fixture `mirrormq_node`, one node shared by the whole test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrormq.testing.cluster import Cluster


@pytest.fixture(scope="session")
def mirrormq_node() -> Iterator[Cluster]:
    """Start a node; `mirrormq_node.uri()` is its AMQP URI."""
    with Cluster(nodes=1) as cluster:
        yield cluster
