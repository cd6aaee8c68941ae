"""Runs of many seeds: the result of each, in order, from one worker process or several.

A worker collects no garbage, which took a tenth of the time. It ends after a few seeds instead.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mirrormq.simulator.seeds import kinds_in, options_of
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.world import SimulationOptions, World

SEEDS_PER_WORKER = 20
"""Seeds of one worker process: a world leaves 5 MB behind."""


class GivenOptions(NamedTuple):
    """Options that are not drawn from the seed. Zero or empty: drawn."""

    nodes: int = 0
    mode: str = ""
    faults: int = 0
    seconds: int = 0
    redeliver: str = ""
    kinds: str = ""
    tight_limits: bool = False

    def __str__(self) -> str:
        """Return the arguments of the simulator's command line."""
        values = [
            f"--{name} {value}" for name, value in self._asdict().items() if value and value is not True
        ]
        return " ".join(values + ["--tight-limits"] * self.tight_limits)


class SeedResult(NamedTuple):
    """Result of one seed."""

    options: SimulationOptions
    wrong: str
    confirmed: int
    masters: int
    """Number of times that a queue got another master."""
    orphans: int
    """Messages that came back from the losing side of a partition."""
    disk_faults: int
    """Disks that were lost, damaged or replaced by an older copy."""


def play(given: GivenOptions, seed: int) -> SeedResult:
    """Run one seed."""
    drawn = options_of(
        seed, given.nodes, given.mode, given.faults, given.seconds * 1000,
        tight_limits=given.tight_limits, redeliver=given.redeliver,
    )  # fmt: skip
    options = drawn._replace(fault_kinds=kinds_in(given.kinds))
    world, wrong, _ = outcome(options)
    orphans = sum(delivered.orphaned for delivered in world.history.delivered)
    disk_faults = world.fault_injector.disk_faults.happened
    return SeedResult(options, wrong, len(world.history.confirmed), _changes(world), orphans, disk_faults)


def _changes(world: World) -> int:
    nodes = [node for node in world.nodes.values() if node.running]
    queues = nodes[0].member.metadata.state.queues.values() if nodes else ()
    return sum(queue.ring.epoch - 1 for queue in queues)


def play_all(given: GivenOptions, seeds: range, jobs: int) -> Iterator[SeedResult]:
    """Run seeds in this many processes, and return their results in order. Ctrl-C interrupts the caller
    only."""
    with multiprocessing.get_context("fork").Pool(jobs, _begin_worker, (), SEEDS_PER_WORKER) as pool:
        yield from pool.imap(partial(play, given), seeds)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
