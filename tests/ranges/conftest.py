"""Range client and a queue per test, on the session's node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.ranges.range_requests import Asker


@pytest.fixture
def range_client(mirrormq: MirrorMQ) -> Iterator[Asker]:
    range_client = Asker(f"amqp://guest:guest@127.0.0.1:{mirrormq.amqp_port}/%2F")
    yield range_client
    if range_client.connection.is_open:
        range_client.close()


@pytest.fixture
def queue(range_client: Asker, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name
    range_client.channel.queue_declare(name, durable=True)
    yield name
    if range_client.channel.is_open:
        range_client.channel.queue_delete(name)
