"""A stream taken in batches and the same stream taken frame by frame have the same outcome."""

from __future__ import annotations

import pytest

from tests.hostile import oracle

SEEDS = 600
PARTS = 6


@pytest.fixture(autouse=True)
def no_tracebacks() -> None:
    """No real node is wanted here."""


@pytest.mark.parametrize("part", range(PARTS))
def test_batches_and_single_frames_have_one_outcome(part: int) -> None:
    for seed in range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS):
        batched, single = oracle.outcome(seed, batched=True), oracle.outcome(seed, batched=False)
        assert batched == single, f"seed {seed}"


def test_streams_reach_the_journal() -> None:
    outcomes = [oracle.outcome(seed, batched=True) for seed in range(100)]
    assert sum(len(found) for one in outcomes for found in one.messages.values()) > 300
    assert sum(len(found) for one in outcomes for found in one.acknowledged.values()) > 100
