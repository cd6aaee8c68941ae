"""Fixtures: a MirrorMQ node with its management API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.brokers.mirrormq import START_DEADLINE_S, MirrorMQ
from tests.brokers.ports import accepts
from tests.management.http import Client
from tests.management.three import clients, cluster  # noqa: F401 - fixtures for the files beside
from tests.waiting import until


@contextmanager
def managed(configuration: str = "") -> Iterator[MirrorMQ]:
    """Start a separate node; its API opens shortly after its AMQP port."""
    with MirrorMQ(configuration=configuration) as broker:
        until(lambda: accepts(broker.management_port), lambda: broker.output, patience_s=START_DEADLINE_S)
        yield broker


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    """Node shared by a file of tests."""
    with managed() as broker:
        yield broker


@pytest.fixture
def client(node: MirrorMQ) -> Client:
    """API client of the user guest."""
    return Client(node.management_port)
