"""`make hunt MINUTES=n`: simulate fresh seeds at idle priority, and append what was found to `HUNT.md`.

The first seed is drawn, so no run repeats another. The hunt goes on after a failure, and ends when its time
is over or at Ctrl-C. Both append a row. The program ends with 1 if a seed failed.

    python -m benchmarks.hunt --minutes 30 [--jobs 2] [--nodes 2] [--mode autoheal]
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.machine import revision, today
from mirrormq.simulator.seed_runs import GivenOptions, SeedResult, play_all
from mirrormq.simulator.seeds import checked_kinds

TABLE = Path(__file__).with_name("HUNT.md")
HEADINGS = [
    "date", "revision", "first seed", "seeds", "options", "confirmed", "masters", "orphans", "disk faults",
    "failed",
]  # fmt: skip
TEXT = """\
# Simulated seeds

Written by `make hunt MINUTES=n`: one row per run, oldest first. Each run draws its first seed. `masters` are
changes of master, `disk faults` the disks that were lost, damaged or replaced by an older copy, and `failed`
the seeds that violated a guarantee on that revision. A failure that was fixed is kept in `tests/scenarios/`.

"""

FIRST_SEED_MAX = 1 << 40
"""Range of the first seed: two hunts of a million seeds each meet with a probability of one in a million."""

BATCH_SEEDS = 20
"""Seeds per process between two looks at the clock, about two seconds."""

NICENESS = 19


class Hunt:
    """Totals of one hunt."""

    def __init__(self, first: int, given: GivenOptions) -> None:
        self.first = first
        self._given = given
        self.seeds = self.confirmed = self.masters = self.orphans = self.disk_faults = 0
        self.failed: list[SeedResult] = []

    def add(self, result: SeedResult) -> None:
        """Add the result of a seed."""
        self.seeds += 1
        self.confirmed += result.confirmed
        self.masters += result.masters
        self.orphans += result.orphans
        self.disk_faults += result.disk_faults
        if result.wrong:
            self.failed.append(result)

    def row(self, tried: str) -> list[str]:
        """Return the row of the table."""
        failed = " ".join(str(result.options.seed) for result in self.failed)
        given = str(self._given)
        counts = (self.confirmed, self.masters, self.orphans, self.disk_faults)
        return [
            today(), tried, str(self.first), str(self.seeds), f"`{given}`" if given else "–",
            *map(str, counts), failed or "none",
        ]  # fmt: skip


def append(table: Path, row: Iterable[str]) -> None:
    """Append a row; the first one brings the heading."""
    if not table.exists():
        head = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        table.write_text(TEXT + "\n".join([*head, ""]))
    with table.open("a") as file:
        file.write("| " + " | ".join(row) + " |\n")


def results(
    given: GivenOptions, first: int, jobs: int, goes_on: Callable[[], bool], batch_seeds: int = BATCH_SEEDS
) -> Iterator[SeedResult]:
    """Run batches of seeds, as long as `goes_on` says so."""
    while goes_on():
        yield from play_all(given, range(first, first + batch_seeds * jobs), jobs)
        first += batch_seeds * jobs


def hunt(found: Iterable[SeedResult], totals: Hunt, show: Callable[[Hunt], None]) -> None:
    """Add up the results until they end, or until Ctrl-C."""
    try:
        print(f"hunting from seed {totals.first}; Ctrl-C ends it and keeps the results", flush=True)
        for result in found:
            totals.add(result)
            if result.wrong:
                print(f"\nseed {result.options.seed}: {result.wrong}", flush=True)
            show(totals)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)


def _progress(minutes: float) -> Callable[[Hunt], None]:
    began_s = time.monotonic()
    shown_s = 0.0

    def show(totals: Hunt) -> None:
        nonlocal shown_s
        passed_s = time.monotonic() - began_s
        if passed_s - shown_s >= (1 if sys.stderr.isatty() else 60):
            shown_s = passed_s
            left_s = max(0, round(minutes * 60 - passed_s))
            line = f"{totals.seeds} seeds, {totals.seeds / passed_s:.1f}/s, {len(totals.failed)} failed"
            print(f"\r{line}, {left_s} s left ", end="", file=sys.stderr, flush=True)

    return show


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="make hunt", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="length of the hunt (10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--nodes", type=int, default=0, help="in the cluster (drawn)")
    parser.add_argument("--mode", default="", help="cluster_partition_handling (drawn)")
    parser.add_argument("--seconds", type=int, default=0, help="of simulated load (drawn)")
    parser.add_argument(
        "--kinds", type=checked_kinds, default="", help="of faults: partition,kill or forks (all)"
    )
    parser.add_argument("--redeliver", default="", help="ha-redeliver: lost, changing (drawn)")
    parser.add_argument("--table", type=Path, default=TABLE, help="file to append to (benchmarks/HUNT.md)")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    os.nice(NICENESS)
    given = GivenOptions(
        nodes=arguments.nodes, mode=arguments.mode, seconds=arguments.seconds,
        redeliver=arguments.redeliver, kinds=arguments.kinds,
    )  # fmt: skip
    first = random.SystemRandom().randrange(1, FIRST_SEED_MAX)
    tried = revision("src")
    totals = Hunt(first, given)
    ends_s = time.monotonic() + arguments.minutes * 60
    found = results(given, first, arguments.jobs, lambda: time.monotonic() < ends_s)
    hunt(found, totals, _progress(arguments.minutes))
    append(arguments.table, totals.row(tried))
    for result in totals.failed:
        print(f"again: python -m mirrormq.simulator --first {result.options.seed} --seeds 1 {given}")
    print(
        f"{totals.seeds} seeds from {first}, {len(totals.failed)} failed, {totals.confirmed} confirmed, "
        f"{totals.disk_faults} disk faults"
    )
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
