"""Fixtures: one node of MirrorMQ for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import START_DEADLINE_S, MirrorMQ
from tests.brokers.ports import accepts
from tests.management.http import Client
from tests.waiting import until


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    """Node shared by a file of tests."""
    with MirrorMQ() as broker:
        until(lambda: accepts(broker.management_port), lambda: broker.output, patience_s=START_DEADLINE_S)
        yield broker


@pytest.fixture
def client(node: MirrorMQ) -> Client:
    """API client of the user guest."""
    return Client(node.management_port)
