"""Command line of the simulator: `python -m mirrormq.simulator --seeds 100 --first 1 --jobs 2`.

Exit code 0 if all seeds pass. The first failing seed is run again with fewer and fewer faults. The report
contains the errors, the faults that are necessary for them, and the last events. With --all the run continues
after a failure, and lists the failed seeds at the end.
"""

from __future__ import annotations

import argparse
import sys
import time

from mirrormq.simulator import scenario
from mirrormq.simulator.seed_runs import GivenOptions, SeedResult, play_all
from mirrormq.simulator.seeds import checked_kinds
from mirrormq.simulator.shrinking import outcome, shrink
from mirrormq.simulator.world import SimulationOptions

BAR = 30
"""Characters of the progress bar."""


class SeedProgress:
    """Progress display in one growing line."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began_s = time.monotonic()
        self.done = self.confirmed = self.masters = self.orphans = self.disk_faults = 0

    def add(self, played: SeedResult) -> None:
        """Add the result of a seed."""
        self.done += 1
        self.confirmed += played.confirmed
        self.masters += played.masters
        self.orphans += played.orphans
        self.disk_faults += played.disk_faults
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
    parser.add_argument(
        "--kinds", type=checked_kinds, default="", help="of faults: partition,kill or forks (all)"
    )
    parser.add_argument("--seconds", type=int, default=0, help="of simulated load (drawn)")
    parser.add_argument("--tight-limits", action="store_true", help="tight limits in every run (in a third)")
    parser.add_argument("--redeliver", default="", help="ha-redeliver: lost, changing (drawn)")
    return parser.parse_args()


def main() -> int:
    """Run seeds until one fails."""
    arguments = parse()
    progress = SeedProgress(arguments.seeds)
    failed: list[SeedResult] = []
    given = GivenOptions(*(getattr(arguments, name) for name in GivenOptions._fields))
    for played in play_all(given, range(arguments.first, arguments.first + arguments.seeds), arguments.jobs):
        progress.add(played)
        if played.wrong:
            failed.append(played)
            if not arguments.all:
                break
            print(f"\nseed {played.options.seed}: {played.wrong}", flush=True)
    for played in failed if not arguments.all else ():
        report(played.options, played.wrong)
        print(f"\nagain: python -m mirrormq.simulator --first {played.options.seed} --seeds 1 {given}")
    print(
        f"\n{progress.done} seeds, {len(failed)} failed, {progress.confirmed} confirmed, "
        f"{progress.masters} changes of master, {progress.orphans} orphans returned, "
        f"{progress.disk_faults} disk faults"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
