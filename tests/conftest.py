"""Shared fixtures: one real broker of each kind for the session, and Hypothesis without deadlines."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests import build_under_test
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.needs import need_rabbitmq
from tests.scheduling import Recorder, Scheduler, order, read_durations

# The machine may be busy with other things: a slow example is not a wrong one.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.txt anew")


def pytest_configure(config: pytest.Config) -> None:
    # The controller sees the reports of all workers; a worker sees its own only.
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    build_under_test.deselect(config, items)
    order(items, read_durations(), in_worker=hasattr(config, "workerinput"))


@pytest.hookimpl(optionalhook=True)  # without xdist there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Give SIGINT its default disposition, in the test and in the processes that it starts.

    A shell without job control starts its background jobs with SIGINT ignored, and every child inherits that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
