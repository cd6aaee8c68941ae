"""Simulated single node with its disk and clients, and the faults that it must find."""

from __future__ import annotations

import pytest

from mirrormq.simulator.shrinking import outcome, shrink
from mirrormq.simulator.world import SimulationOptions
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal

SHORT_MS = 8000


def options(seed: int) -> SimulationOptions:
    return SimulationOptions(seed, nodes=1, load_ms=SHORT_MS, faults=5)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_goes_wrong(seed: int) -> None:
    world, wrong, _ = outcome(options(seed))
    assert not wrong
    assert len(world.history.confirmed) > 20


def test_a_seed_decides_everything() -> None:
    one, other = outcome(options(3))[0], outcome(options(3))[0]
    assert one.history.delivered == other.history.delivered
    assert one.trace == other.trace and one.timeline.now_ms == other.timeline.now_ms
    assert one.history.delivered != outcome(options(4))[0].history.delivered


def failing(seeds: range) -> tuple[SimulationOptions, str]:
    """Return the first seed that fails."""
    for seed in seeds:
        wrong = outcome(options(seed))[1]
        if wrong:
            return options(seed), wrong
    raise AssertionError("the fault was not found")


def test_a_sync_that_is_left_out_is_found_and_the_seed_shrinks_to_one_power_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flush = Journal.flush
    monkeypatch.setattr(Journal, "flush", lambda self, sync: flush(self, False))
    found, wrong = failing(range(20))
    assert "confirmed and lost" in wrong
    world, wrong, kinds = outcome(shrink(found))
    assert "ConfirmedIsKept" in kinds
    assert "confirmed and lost" in wrong
    assert {fault.kind for fault in world.schedule} <= {"power", "torn"} and len(world.schedule) == 1


def test_metadata_that_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = EntryLog.append
    monkeypatch.setattr(EntryLog, "append", lambda self, entry, sync: append(self, entry, False))
    assert "lost" in failing(range(40))[1]
