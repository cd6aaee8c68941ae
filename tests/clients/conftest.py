"""Real clients against a real node in a process of its own.

Nothing in this folder knows which broker it talks to, so that the same tests can be held against the judge:
`CLIENTS_AGAINST=rabbitmq make test ARGS=tests/clients` runs them on a RabbitMQ of their own. Only the tests
that kill the node are for MirrorMQ alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers.mirrormq import MirrorMQ
from tests.clients.support import uri


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Any:
    """The broker under test, shared: tests use names of their own."""
    return request.getfixturevalue(os.environ.get("CLIENTS_AGAINST", "mirrormq"))


@pytest.fixture
def mortal_broker() -> Iterator[MirrorMQ]:
    """A node that the test may kill and boot again."""
    if os.environ.get("CLIENTS_AGAINST", "mirrormq") != "mirrormq":
        pytest.skip("only MirrorMQ is killed: run without CLIENTS_AGAINST")
    with MirrorMQ() as node:
        yield node


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for queues and exchanges that no other test uses."""
    return re.sub(r"\W+", "-", request.node.name).strip("-")


@pytest.fixture
def connection(broker: Any) -> Iterator[pika.BlockingConnection]:
    """A pika connection, closed after the test."""
    opened = pika.BlockingConnection(pika.URLParameters(uri(broker)))
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """A channel of that connection."""
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    """An empty queue that goes with the connection."""
    channel.queue_declare(name, exclusive=True)
    return name
