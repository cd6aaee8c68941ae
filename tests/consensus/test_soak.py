"""Soak test: hundreds of storms, watched by every checker; after each one all nodes must agree again.

`SEEDS=20000 pytest tests/consensus/test_soak.py` runs more; `FIRST_SEED` is the first seed.
"""

from __future__ import annotations

import os

import pytest

from mirrormq.consensus import Majority, Reachable
from tests.consensus.storms import storm

SEEDS = int(os.environ.get("SEEDS", "300"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
BATCH = 25
"""Seeds in one test, which is reported in one line. Half of SEEDS run under each rule."""


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS // 2, BATCH))
@pytest.mark.parametrize("rule", [Majority, Reachable])
def test_storms_break_no_claim(rule: type[Majority | Reachable], first: int) -> None:
    for seed in range(first, first + BATCH):
        try:
            storm(seed, rule)
        except Exception as problem:
            problem.add_note(f"seed {seed}, {rule.__name__}")
            raise


def test_a_seed_decides_everything() -> None:
    one, other = storm(11, Reachable), storm(11, Reachable)
    assert one.now == other.now
    assert one.describe() == other.describe()
    assert [node.machine for node in one.nodes.values()] == [node.machine for node in other.nodes.values()]


def test_storms_meet_what_they_are_for() -> None:
    """Forks, snapshot transfers, and proposals settled by a snapshot all happen in a few seeds."""
    logs = [
        ready
        for seed in range(20)
        for node in storm(seed, Reachable).nodes.values()
        for ready in node.ready_log
    ]
    assert any(ready.forks for ready in logs)
    assert any(ready.healed for ready in logs)
    assert any(ready.members for ready in logs)
    assert any(ready.restore for ready in logs)
