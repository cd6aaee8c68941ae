"""A client that asks, and a queue of the test's own, on the session's node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.ranges.asking import Asker


@pytest.fixture
def asker(mirrormq: MirrorMQ) -> Iterator[Asker]:
    asker = Asker(f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F")
    yield asker
    if asker.connection.is_open:
        asker.close()


@pytest.fixture
def queue(asker: Asker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    asker.channel.queue_declare(name, durable=True)
    yield name
    if asker.channel.is_open:
        asker.channel.queue_delete(name)
