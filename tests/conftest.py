"""What all tests share: one real broker of each kind for the session, and Hypothesis without a stopwatch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.needs import need_rabbitmq

# The machine may be busy with other things: a slow example is not a wrong one.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """A real RabbitMQ, started when the first test asks for it."""
    need_rabbitmq()
    with RabbitMQ() as broker:
        yield broker


@pytest.fixture(scope="session")
def mirrormq() -> Iterator[MirrorMQ]:
    """One MirrorMQ node in a process of its own, shared: tests use their own queue names."""
    with MirrorMQ() as broker:
        yield broker
