"""A node of its own for the attacks, with short timeouts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with MirrorMQ(configuration="handshake_timeout = 5000\nmax_message_size = 16777216\n") as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_tracebacks(node: MirrorMQ) -> Iterator[None]:
    """Nothing a client sends may surprise us: an unexpected exception is in the log with its traceback."""
    before = len(node.output)
    yield
    assert "Traceback" not in node.output[before:], node.output[before:][-3000:]
