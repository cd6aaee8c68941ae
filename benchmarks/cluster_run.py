"""Cluster benchmark, second table of `make bench`: three nodes, every queue mirrored on all of them, compared
with RabbitMQ's mirrored and quorum queues."""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.brokers import RabbitMQ
from benchmarks.cluster_lines import CLUSTER_LINES, ClusterLine, Measure
from benchmarks.clusters import Cluster, MirrorMQCluster, RabbitMQCluster
from benchmarks.cost_cluster_lines import CLUSTER_COST_LINES
from benchmarks.costs import (
    COST_HEADINGS,
    COST_TEXT,
    FAILURES,
    CostLine,
    cost_rounds,
    kept_costs,
    work_cell,
)
from benchmarks.kept_rounds import KeptRounds
from benchmarks.machine import describe, load_average, measured_tree, table_lines, today, write_table

RESULTS = Path(__file__).with_name("CLUSTER.md")
ROUND_S = 4.0
MIRRORED, QUORUM, OURS = "RabbitMQ mirrored", "RabbitMQ quorum", "MirrorMQ"
HEADINGS = ["work", MIRRORED, QUORUM, OURS, "× mirrored", "× quorum", "target", "ok"]


@dataclass(slots=True)
class Result:
    """Rounds of one line, by contestant."""

    line: ClusterLine
    rounds: dict[str, list[float]] = field(default_factory=dict)
    error: str = ""
    """Why the line could not be measured."""

    def median(self, name: str) -> float | None:
        values = self.rounds.get(name)
        return statistics.median(values) if values else None

    def _number(self, name: str) -> str:
        values = self.rounds.get(name)
        if not values:
            return "–"
        digits = 0 if self.line.unit == "msg/s" else 2
        text = f"{statistics.median(values):,.{digits}f} {self.line.unit}"
        return text + (f" ({min(values):,.{digits}f}–{max(values):,.{digits}f})" if len(values) > 1 else "")

    def _ratio(self, name: str) -> float | None:
        theirs, ours = self.median(name), self.median(OURS)
        return ours / theirs if theirs and ours is not None else None

    def verdict(self) -> str:
        """Whether every target of the line is met."""
        line, ours = self.line, self.median(OURS)
        if self.error:
            return "no"
        wanted = [(line.mirrored, self._ratio(MIRRORED)), (line.quorum, self._ratio(QUORUM))]
        checks = [
            ratio <= target if line.lower_is_better else ratio >= target
            for target, ratio in wanted
            if target is not None and ratio is not None
        ]
        if line.at_most is not None and ours is not None:
            checks.append(ours <= line.at_most)
        return "–" if not checks or ours is None else "yes" if all(checks) else "no"

    def cells(self) -> list[str]:
        """Return one row of the table."""
        line = self.line
        sign = "≤" if line.lower_is_better else "≥"
        promises = [f"{sign} {line.mirrored:g} ×"] if line.mirrored is not None else []
        promises += [f"{sign} {line.quorum:g} × quorum"] if line.quorum is not None else []
        promises += [f"≤ {line.at_most:g} {line.unit}"] if line.at_most is not None else []
        ratios = [self._ratio(MIRRORED), self._ratio(QUORUM)]
        shown = ["–" if ratio is None else f"{ratio:.2f} ×" for ratio in ratios]
        numbers = [self._number(name) for name in (MIRRORED, QUORUM, OURS)]
        return [work_cell(line.work, self.error), *numbers, *shown, ", ".join(promises), self.verdict()]


def measure(
    lines: list[ClusterLine], ours: Cluster, theirs: Cluster | None, rounds: int, kept: KeptRounds
) -> None:
    """Measure all lines, and keep each line; contestants take turns. Lines that share a measurement are
    measured once."""
    known: dict[tuple[Measure, str], list[dict[str, float]]] = {}
    failed: dict[Measure, str] = {}
    for line in lines:
        result, load, name = Result(line), load_average(), ""
        contestants: list[tuple[str, Cluster, str]] = [(OURS, ours, "")]
        if theirs is not None and not line.ours_only:
            contestants.insert(0, (MIRRORED, theirs, ""))
            if line.quorum is not None:
                contestants.insert(1, (QUORUM, theirs, "quorum"))
        try:
            for _ in range(0 if (line.measure, OURS) in known else min(rounds, line.rounds)):
                for name, cluster, kind in contestants:
                    print(f"  {line.key}: {name} …", file=sys.stderr, flush=True)
                    known.setdefault((line.measure, name), []).append(line.measure(cluster, ROUND_S, kind))
        except FAILURES as error:
            failed[line.measure] = f"{name}: {error}"
        result.error = failed.get(line.measure, "")
        for name, _, _ in contestants:
            result.rounds[name] = [found[line.number] for found in known.get((line.measure, name), ())]
        kept.put(line.key, result.rounds, result.error, load)
        print("  ".join(result.cells()), flush=True)


def measure_costs(
    lines: list[CostLine], ours: Cluster, theirs: Cluster | None, rounds: int, kept: KeptRounds
) -> None:
    """Measure the CPU time per message of all lines, and keep each line."""
    for line in lines:
        print(f"  {line.key} …", file=sys.stderr, flush=True)
        load, targets = load_average(), [ours] if theirs is None else [theirs, ours]
        result = cost_rounds(line, targets, rounds, ROUND_S)
        kept.put(line.key, result.rounds, result.error, load)
        print("  ".join(result.cells()), flush=True)


def kept_results(lines: Sequence[ClusterLine], kept: KeptRounds) -> list[Result]:
    """Return measured lines."""
    return [Result(line, kept.rounds(line.key), kept.error(line.key)) for line in lines]


def write(kept: KeptRounds, machine: list[str]) -> None:
    """Write the tables to CLUSTER.md."""
    text = [
        "# Three mirrored nodes beside RabbitMQ",
        "",
        f"Written by `make bench` on {today()}: medians of alternating rounds of {ROUND_S:g} s, lowest and",
        "highest in brackets.",
        "All six nodes are up for the whole run on the same machine, one cluster is loaded at a time.",
        "100-byte persistent messages, durable queues, confirm window 1000, prefetch 500, ack every 100;",
        "`ha-mode: all`, `ha-sync-mode: automatic`. RabbitMQ notices a frozen node after its net_ticktime",
        "(60 s by default), which is not waited for here.",
    ]
    rows = [result.cells() for result in kept_results(CLUSTER_LINES, kept)]
    costs = [result.cells() for result in kept_costs(CLUSTER_COST_LINES, kept)]
    more = ["", *COST_TEXT, "", *table_lines(COST_HEADINGS, costs)]
    write_table(RESULTS, text, [*machine, *kept.facts()], HEADINGS, rows, more)


def main() -> int:
    """Run the benchmark; return 1 if a cluster cannot be measured."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_run",
        description="Measure a mirrored cluster beside RabbitMQ's. Example: --only master --rounds 1",
    )
    keys = [line.key for line in (*CLUSTER_LINES, *CLUSTER_COST_LINES)]
    parser.add_argument("--only", default="*", metavar="PATTERN", help=", ".join(keys))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=["both", "mirrormq"], default="both")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pattern = options.only
    matching = {line.measure for line in CLUSTER_LINES if fnmatch(line.key, pattern) or pattern in line.key}
    lines = [line for line in CLUSTER_LINES if line.measure in matching]  # lines may share a measurement
    cost_lines = [line for line in CLUSTER_COST_LINES if fnmatch(line.key, pattern) or pattern in line.key]
    if not lines and not cost_lines:
        parser.error(f"no line matches {options.only!r}; there are {', '.join(keys)}")
    version = RabbitMQ.version()
    machine = describe(version)
    ours = MirrorMQCluster()
    theirs = RabbitMQCluster() if version and options.broker == "both" else None
    kept = KeptRounds("cluster" if theirs else "cluster_trial", measured_tree(f"RabbitMQ {version}"))
    try:
        ours.start()
        if theirs is not None:
            theirs.start()
        measure(lines, ours, theirs, options.rounds, kept)
        measure_costs(cost_lines, ours, theirs, options.rounds, kept)
    except (RuntimeError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        ours.stop()
        if theirs is not None:
            theirs.stop()
    missing = kept.missing(keys)
    if theirs is None:
        print("CLUSTER.md is written with both brokers only")
    elif missing:
        print(f"kept; CLUSTER.md is written when these lines are measured, too: {', '.join(missing)}")
    else:
        write(kept, machine)
        print(f"written to {RESULTS.name}")
    measured = [*(line.key for line in lines), *(line.key for line in cost_lines)]
    return 1 if any(kept.error(key) for key in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
