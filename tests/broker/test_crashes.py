"""Crash of the node after every single write of random workloads: its guarantees to clients hold.

SEEDS=200 pytest tests/broker/test_crashes.py           more workloads
FIRST_SEED=1000 SEEDS=50 pytest …                       other workloads
"""

from __future__ import annotations

import os
import random

import pytest

from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.broker.crash_workload import Way, Workload
from tests.harness import Node
from tests.queues.support import TINY_LIMITS

SEEDS = int(os.environ.get("SEEDS", "3"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "1"))
OPERATIONS = 40
SEGMENT_BYTES = 1_500
"""Segment size: a workload fills and frees several segments."""


def run_until(seed: int, crash_at_step: int | None) -> tuple[SimulatedDisk, Workload, bool]:
    """Run a workload on a new disk. Return the disk, what the clients know, and whether it crashed."""
    disk = SimulatedDisk(random.Random(seed * 100_003 + (crash_at_step or 0)).randrange)
    disk.crash_at_step = crash_at_step
    workload = Workload(seed)
    try:
        workload.run(Node(disk, segment_bytes=SEGMENT_BYTES), OPERATIONS)
    except SimulatedCrash:
        return disk, workload, True
    return disk, workload, False


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_a_crash_after_any_write_breaks_no_promise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "limits", BrokerLimits(queues=TINY_LIMITS))
    disk, workload, crashed = run_until(seed, None)
    assert not crashed
    for crash_at_step in range(1, disk.steps + 1):
        disk, workload, crashed = run_until(seed, crash_at_step)
        assert crashed
        way: Way = "kill" if (seed + crash_at_step) % 2 else "power"
        if way == "kill":
            disk.kill()
        else:
            disk.crash()
        try:
            workload.check(Node(disk, segment_bytes=SEGMENT_BYTES), way)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {way} at step {crash_at_step}: {error}") from error
