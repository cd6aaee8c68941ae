"""Crash after every single write, sync and name change of random workloads."""

from __future__ import annotations

import pytest

from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_limits import JournalLimits
from mirrormq.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.crash_model import FANOUT_BYTES, Workload
from tests.storage.support import DIRECTORY, disk, journal, state

OPERATIONS = 90
AFTERWARDS = 25
SEGMENT_BYTES = 1200
"""Segment size: a workload fills, frees and compacts several segments."""

LIMITS = JournalLimits(shared_content_bytes_min=FANOUT_BYTES)


def run_until(seed: int, crash_at_step: int | None) -> tuple[SimulatedDisk, Workload, bool]:
    """Run a workload. Return the disk, the model, and whether it crashed."""
    on, workload = disk(seed), Workload(seed)
    on.crash_at_step = crash_at_step
    made = journal(on, SEGMENT_BYTES, LIMITS)
    try:
        made.open()
        workload.run(made, OPERATIONS)
        made.close()
    except SimulatedCrash:
        return on, workload, True
    return on, workload, False


def note_newest(on: SimulatedDisk, workload: Workload) -> None:
    """Record the newest segment, which may have torn bytes after a crash."""
    workload.torn.update(
        [f"{DIRECTORY}/{name}" for name in on.list(DIRECTORY) if name.endswith(".journal")][-1:]
    )


def recovered(on: SimulatedDisk, workload: Workload) -> Journal:
    """Open after a crash. Only a segment that was the newest at a crash may have torn bytes."""
    note_newest(on, workload)
    made = journal(on, SEGMENT_BYTES, LIMITS)
    report = made.open()
    assert not report.damage_proven, report.dropped
    torn = {*workload.torn, f"{DIRECTORY}/manifest"}
    assert all(dropped.path in torn for dropped in report.dropped), report.dropped
    workload.check_recovered(made)
    return made


def steps_of(seed: int) -> int:
    on, _, crashed = run_until(seed, None)
    assert not crashed
    return on.steps


@pytest.mark.parametrize("seed", range(12))
def test_no_crash_loses_a_synced_message_or_raises_an_acknowledged_one(seed: int) -> None:
    for crash_at_step in range(1, steps_of(seed) + 1):
        on, workload, crashed = run_until(seed, crash_at_step)
        assert crashed
        if crash_at_step % 3 == 0:
            on.kill()
        else:
            on.crash()
        made = recovered(on, workload)
        workload.run(made, AFTERWARDS)
        workload.load(made)
        on.crash()
        recovered(on, workload)


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_crash_during_recovery_or_housekeeping_changes_nothing(seed: int) -> None:
    steps = steps_of(seed)
    for crash_at_step in range(1, steps, 11):
        for second in (1, 2, 3, 5, 8):
            on, workload, _ = run_until(seed, crash_at_step)
            on.crash()
            note_newest(on, workload)
            on.crash_at_step = on.steps + second
            try:
                made = journal(on, SEGMENT_BYTES, LIMITS)
                made.open()
                while made.housekeeping(400):
                    pass
            except SimulatedCrash:
                pass
            on.crash()
            recovered(on, workload)


@pytest.mark.parametrize("seed", range(200, 206))
def test_the_index_equals_a_scan_after_any_workload(seed: int) -> None:
    on, _, crashed = run_until(seed, None)
    assert not crashed
    by_index = journal(on, SEGMENT_BYTES, LIMITS)
    assert by_index.open().from_index
    on.remove("data/journal/clean-shutdown.index")
    by_scan = journal(on, SEGMENT_BYTES, LIMITS)
    assert not by_scan.open().from_index
    assert state(by_index) == state(by_scan)
    for number, segment in by_scan.segments.by_number.items():
        assert segment.live == by_index.segments.by_number[number].live


def test_the_workloads_do_free_compact_and_tear() -> None:
    """Check that the workloads still free, compact and tear, so that the tests above can find errors."""
    removed = torn = 0
    for seed in range(8):
        on, _, _ = run_until(seed, None)
        numbers = [int(name[:10]) for name in on.list("data/journal") if name.endswith(".journal")]
        removed += max(numbers) - len(numbers)
        for crash_at_step in range(1, steps_of(seed), 7):
            on, _, _ = run_until(seed, crash_at_step)
            on.crash()
            torn += bool(journal(on, SEGMENT_BYTES, LIMITS).open().dropped)
    assert removed > 20
    assert torn > 5
