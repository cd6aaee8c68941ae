"""Command line of the simulator: `python -m mirrormq.simulator --seeds 100 --first 1 --jobs 2`.

Exit code 0 if all seeds pass. The first failing seed is run again with fewer and fewer faults. The report
contains the errors, the faults that are necessary for them, and the last events. With --all the run continues
after a failure, and lists the failed seeds at the end.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mirrormq.simulator import scenario
from mirrormq.simulator.seeds import options_of
from mirrormq.simulator.shrinking import outcome, shrink
from mirrormq.simulator.world import SimulationOptions, World

BAR = 30
"""Characters of the progress bar."""


SEEDS_PER_SWEEP = 10
"""Seeds between two garbage collections: a world takes a few megabytes."""


class SeedResult(NamedTuple):
    """Result of one seed."""

    options: SimulationOptions
    wrong: str
    confirmed: int
    masters: int
    """Number of times that a queue got another master."""
    orphans: int
    """Messages that came back from the losing side of a partition."""


def play(arguments: argparse.Namespace, seed: int) -> SeedResult:
    """Run one seed. Garbage is collected only after every few seeds."""
    gc.disable()
    if seed % SEEDS_PER_SWEEP == 0:
        gc.collect()
    options = options_of(
        seed, arguments.nodes, arguments.mode, arguments.faults, arguments.seconds * 1000,
        tight_limits=arguments.tight_limits, redeliver=arguments.redeliver,
    )  # fmt: skip
    world, wrong, _ = outcome(options)
    orphans = sum(delivered.orphaned for delivered in world.history.delivered)
    return SeedResult(options, wrong, len(world.history.confirmed), _changes(world), orphans)


def _changes(world: World) -> int:
    nodes = [node for node in world.nodes.values() if node.running]
    queues = nodes[0].member.metadata.state.queues.values() if nodes else ()
    return sum(queue.ring.epoch - 1 for queue in queues)


def play_all(arguments: argparse.Namespace) -> Iterator[SeedResult]:
    """Run all seeds, in as many processes as requested."""
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.jobs == 1:
        yield from map(partial(play, arguments), seeds)
        return
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        yield from pool.imap_unordered(partial(play, arguments), seeds)


class SeedProgress:
    """Progress display in one growing line."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began_s = time.monotonic()
        self.done = self.confirmed = self.masters = self.orphans = 0

    def add(self, played: SeedResult) -> None:
        """Add the result of a seed."""
        self.done += 1
        self.confirmed += played.confirmed
        self.masters += played.masters
        self.orphans += played.orphans
        if sys.stderr.isatty() or self.done == self._count or self.done % 100 == 0:
            self._show()

    def _show(self) -> None:
        rate = self.done / max(time.monotonic() - self._began_s, 0.001)
        full = BAR * self.done // self._count
        bar = "█" * full + "·" * (BAR - full)
        left_s = (self._count - self.done) / rate
        line = f"{bar} {self.done} of {self._count} seeds, {rate:.1f}/s, {left_s:.0f} s left"
        print(f"\r{line}, {self.confirmed} confirmed", end="", file=sys.stderr, flush=True)


def report(options: SimulationOptions, wrong: str) -> None:
    """Print everything that helps to understand a failure."""
    print(f"\nseed {options.seed} fails ({options.nodes} nodes, {options.mode}):\n{wrong}")
    least = shrink(options, lambda count: print(f"\rstill fails with {count} faults", end="", flush=True))
    world, wrong, _ = outcome(least)
    print(f"\nwith {len(world.schedule)} of its faults:\n{wrong}\n")
    print("\n".join(world.trace))
    print(f"\nthe run, as a scenario:\n\n{scenario.write(least)}")


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m mirrormq.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--all", action="store_true", help="go on after a failure")
    parser.add_argument("--nodes", type=int, default=0, help="in the cluster (drawn)")
    parser.add_argument("--mode", default="", help="cluster_partition_handling (drawn)")
    parser.add_argument("--faults", type=int, default=0, help="in each run (drawn)")
    parser.add_argument("--seconds", type=int, default=0, help="of simulated load (drawn)")
    parser.add_argument("--tight-limits", action="store_true", help="tight limits in every run (in a third)")
    parser.add_argument("--redeliver", default="", help="ha-redeliver: lost, changing (drawn)")
    return parser.parse_args()


def main() -> int:
    """Run seeds until one fails."""
    arguments = parse()
    progress = SeedProgress(arguments.seeds)
    failed: list[SeedResult] = []
    for played in play_all(arguments):
        progress.add(played)
        if played.wrong:
            failed.append(played)
            if not arguments.all:
                break
            print(f"\nseed {played.options.seed}: {played.wrong}", flush=True)
    drawn = "".join(
        f" --{name} {value}"
        for name in ("nodes", "mode", "faults", "seconds", "redeliver")
        if (value := getattr(arguments, name))
    )
    drawn += " --tight-limits" if arguments.tight_limits else ""
    for played in failed if not arguments.all else ():
        report(played.options, played.wrong)
        print(f"\nagain: python -m mirrormq.simulator --first {played.options.seed} --seeds 1{drawn}")
    print(
        f"\n{progress.done} seeds, {len(failed)} failed, {progress.confirmed} confirmed, "
        f"{progress.masters} changes of master, {progress.orphans} orphans returned"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
