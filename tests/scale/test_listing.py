"""Ten thousand queues are listed, in every way there is, beside a queue under full load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.listing import GAP_MS_MAX, Deliveries, declare, gap_beside, listings, load
from mirrormq.testing import Cluster
from tests.waiting import until

QUEUES = 10_000
START_DEADLINE_S = 60.0
ROUNDS = 10
"""The machine may be busy with others; a gap of ours comes every time."""
BUSY_MACHINE = 2.0
"""Allowed ratio: gaps beside a listing may be twice as long as gaps without one."""


@pytest.fixture(scope="module")
def loaded() -> Iterator[tuple[Cluster, Deliveries]]:
    with Cluster(nodes=1) as node:
        declare(QUEUES)
        deliveries = Deliveries(node.uri())
        deliveries.start()
        publishing = load(node.uri())
        try:
            until(lambda: deliveries.bytes, "the load never got going", patience_s=START_DEADLINE_S)
            yield node, deliveries
        finally:
            deliveries.over = True
            publishing.kill()
            publishing.wait()


@pytest.mark.slow
@pytest.mark.parametrize("way", list(listings(0)))
def test_a_listing_does_not_hold_up_deliveries(way: str, loaded: tuple[Cluster, Deliveries]) -> None:
    node, deliveries = loaded
    command = listings(node.management_port())[way]
    seen: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        before = deliveries.bytes
        beside = gap_beside(command, deliveries, 1.0)
        assert deliveries.bytes > before, "nothing is delivered"
        if beside < GAP_MS_MAX:
            return
        alone = gap_beside(None, deliveries, 1.0)
        seen.append((beside, alone))
        if beside < BUSY_MACHINE * alone:
            return
    pytest.fail(f"gaps beside the listing, and without one, in ms: {seen}")
