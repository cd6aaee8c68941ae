"""Single-node benchmark of `make bench`: every line on both brokers, in short alternating rounds, as medians.

Both nodes are up for the whole run and only one is loaded at any moment. Rounds alternate between them: a
slow minute of the machine hits both, and the median ignores a round that was hit alone.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.brokers import Broker, Floor, LavinMQ, MirrorMQ, RabbitMQ
from benchmarks.cost_lines import COST_LINES
from benchmarks.cost_routing_lines import ROUTING_LINES
from benchmarks.costs import (
    COST_HEADINGS,
    COST_TEXT,
    FAILURES,
    CostLine,
    CostResult,
    cost_rounds,
    kept_costs,
    work_cell,
)
from benchmarks.kept_rounds import KeptRounds
from benchmarks.lines import LINES, Line
from benchmarks.machine import describe, load_average, measured_tree, table_lines, today, write_table
from benchmarks.side_lines import SIDE_LINES

RESULTS = Path(__file__).with_name("RESULTS.md")
ALL_LINES = (*LINES, *SIDE_LINES)
ALL_COST_LINES = (*COST_LINES, *ROUTING_LINES)
KEYS = [line.key for line in (*ALL_LINES, *ALL_COST_LINES)]
ROUNDS, ROUND_S = 5, 3.0
COST_ROUNDS, COST_ROUND_S = 3, 2.0
QUICK_ROUNDS, QUICK_ROUND_S = 1, 1.0


@dataclass(slots=True)
class Result:
    """Rounds of one line on both brokers, by broker name."""

    line: Line
    rounds: dict[str, list[float]] = field(default_factory=dict)
    error: str = ""

    def median(self, name: str) -> float | None:
        values = self.rounds.get(name)
        return statistics.median(values) if values else None

    def cells(self) -> list[str]:
        """Return work, RabbitMQ, MirrorMQ, ratio, target, ok."""
        theirs, ours = self.median(RabbitMQ.name), self.median(MirrorMQ.name)
        work = work_cell(self.line.work, self.error)
        cells = [work, self._number(RabbitMQ.name), self._number(MirrorMQ.name)]
        if ours is None:
            return [*cells, "–", self.line.promise(), "no" if self.error else "–"]
        ratio = self.line.ratio(theirs, ours) if theirs is not None else None
        met = False if self.error else self.line.met(ratio, ours)
        verdict = {True: "yes", False: "no", None: "–"}[met]
        return [*cells, "–" if ratio is None else f"{ratio:.2f} ×", self.line.promise(), verdict]

    def _number(self, name: str) -> str:
        middle, values = self.median(name), self.rounds.get(name)
        if middle is None or not values:
            return "–"
        digits = 0 if self.line.unit.endswith("/s") else 2
        text = f"{middle:,.{digits}f} {self.line.unit}"
        if len(values) > 1:
            text += f" ({min(values):,.{digits}f}–{max(values):,.{digits}f})"
        return text


Each = TypeVar("Each", Line, CostLine)
HEADINGS = ["work", "RabbitMQ", "MirrorMQ", "ratio", "target", "ok"]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measure MirrorMQ beside RabbitMQ. Example: make bench ARGS=\"--only 'p*' --rounds 3\"",
    )
    parser.add_argument(
        "--only",
        default="*",
        metavar="PATTERN",
        help="lines whose key matches or contains this: " + ", ".join(KEYS),
    )
    parser.add_argument(
        "--rounds", type=int, default=0, help=f"rounds per line and broker (default {ROUNDS})"
    )
    parser.add_argument("--quick", action="store_true", help="one short round of each: a smoke test")
    parser.add_argument("--broker", choices=["both", "rabbitmq", "mirrormq"], default="both")
    return parser.parse_args(arguments)


def measure(
    lines: list[Line], brokers: list[Broker], rounds: int, seconds: float, console: Console, kept: KeptRounds
) -> None:
    """Measure all lines in all rounds, one broker at a time, and keep each line."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    # Draw only between measurements: a refreshing thread would take time from the brokers.
    with Progress(
        *columns, TimeElapsedColumn(), console=console, auto_refresh=False, transient=True
    ) as progress:
        counts = [min(rounds, line.rounds or rounds) for line in lines]
        task = progress.add_task("", total=sum(counts) * len(brokers))
        for line, count in zip(lines, counts, strict=True):
            result, load = Result(line), load_average()
            try:
                for number in range(count):
                    for broker in brokers:
                        progress.update(task, description=f"{line.key}, {broker.name}, round {number + 1}")
                        progress.refresh()
                        value = line.measure(broker, seconds)
                        result.rounds.setdefault(broker.name, []).append(value)
                        progress.advance(task)
            except FAILURES as error:
                result.error = f"{broker.name}: {error}"
            kept.put(line.key, result.rounds, result.error, load)
            if not console.is_terminal:
                console.print("  ".join(result.cells()), soft_wrap=True)


def measure_costs(
    lines: list[CostLine],
    brokers: list[Broker],
    rounds: int,
    seconds: float,
    console: Console,
    kept: KeptRounds,
) -> None:
    """Measure the CPU time per message of all lines, and keep each line."""
    for line in lines:
        load = load_average()
        result = cost_rounds(line, brokers, rounds, seconds)
        kept.put(line.key, result.rounds, result.error, load)
        console.print(f"{line.key}: " + "  ".join(result.cells()[1:]), soft_wrap=True)


def kept_results(lines: Sequence[Line], kept: KeptRounds) -> list[Result]:
    """Return measured lines."""
    return [Result(line, kept.rounds(line.key), kept.error(line.key)) for line in lines]


def show(headings: list[str], results: Sequence[Result] | Sequence[CostResult], console: Console) -> None:
    """Print a table."""
    if not results:
        return
    table = Table(*headings)
    for result in results:
        cells = result.cells()
        table.add_row(*cells, style={"yes": "green", "no": "red"}.get(cells[-1]))
    console.print(table)


def write(kept: KeptRounds, machine: list[str], seconds: float) -> None:
    """Write the tables to RESULTS.md."""
    text = [
        "# MirrorMQ beside RabbitMQ",
        "",
        f"Written by `make bench` on {today()}: medians of alternating rounds of {seconds:g} s, those of CPU",
        f"time {min(seconds, COST_ROUND_S):g} s, lowest and highest in brackets, both brokers in one run,",
        "never loaded at once. 100-byte bodies, one publisher, one consumer unless the line says otherwise.",
        "Both run with their defaults, RabbitMQ without plugins.",
    ]
    rows = [result.cells() for result in kept_results(ALL_LINES, kept)]
    costs = [result.cells() for result in kept_costs(ALL_COST_LINES, kept)]
    more = ["", *COST_TEXT, "", *table_lines(COST_HEADINGS, costs)]
    write_table(RESULTS, text, [*machine, *kept.facts()], HEADINGS, rows, more)


def chosen(lines: Sequence[Each], pattern: str) -> list[Each]:
    """Return the lines whose key matches the pattern or contains it."""
    return [line for line in lines if fnmatch(line.key, pattern) or pattern in line.key]


def wanted_brokers(choice: str, version: str | None, console: Console) -> list[Broker]:
    """Return the brokers to measure, RabbitMQ first; the floor and LavinMQ take part in CPU lines only."""
    brokers: list[Broker] = []
    if choice != "mirrormq" and version:
        brokers.append(RabbitMQ())
    elif not version:
        console.print(
            "RabbitMQ is not installed (Debian: apt install rabbitmq-server): MirrorMQ's numbers only."
        )
    if choice != "rabbitmq":
        brokers.append(MirrorMQ())
    return brokers


def main() -> int:
    """Run the benchmark; return 1 if a broker cannot be measured."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the brokers, too
    console = Console(stderr=False)
    lines, cost_lines = chosen(ALL_LINES, options.only), chosen(ALL_COST_LINES, options.only)
    if not lines and not cost_lines:
        print(f"bench: no line matches {options.only!r}; there are {', '.join(KEYS)}", file=sys.stderr)
        return 2
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = QUICK_ROUND_S if options.quick else ROUND_S
    version = RabbitMQ.version()
    machine = describe(version)
    published = options.broker == "both" and version is not None and not options.quick
    kept = KeptRounds(
        "one_node" if published else "one_node_trial", measured_tree(f"{seconds:g} s, {version}")
    )
    brokers = wanted_brokers(options.broker, version, console)
    others: list[Broker] = [Floor()] if cost_lines else []
    others += [LavinMQ()] if cost_lines and LavinMQ.found() else []
    try:
        for broker in (*brokers, *others):
            broker.start()
        measure(lines, brokers, rounds, seconds, console, kept)
        cost_seconds = min(seconds, COST_ROUND_S)
        measure_costs(cost_lines, [*brokers, *others], min(rounds, COST_ROUNDS), cost_seconds, console, kept)
    except (RuntimeError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        for broker in (*brokers, *others):
            broker.stop()
    measured = [*(line.key for line in lines), *(line.key for line in cost_lines)]
    results, costs = kept_results(lines, kept), kept_costs(cost_lines, kept)
    show(HEADINGS, results, console)
    show(COST_HEADINGS, costs, console)
    missing = kept.missing(KEYS)
    if not published:
        console.print("RESULTS.md is written with both brokers and in full rounds only")
    elif missing:
        console.print(f"kept; RESULTS.md is written when these lines are measured, too: {', '.join(missing)}")
    else:
        write(kept, machine, seconds)
        console.print(f"written to {RESULTS.name}")
    return 1 if any(kept.error(key) for key in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
