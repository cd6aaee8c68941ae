"""Single-node benchmark of `make bench`: every line on both brokers, in short alternating rounds, as medians.

Both nodes are up for the whole run and only one is loaded at any moment. Rounds alternate between them: a
slow minute of the machine hits both, and the median ignores a round that was hit alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.brokers import Broker, MirrorMQ, RabbitMQ
from benchmarks.lines import LINES, Line
from benchmarks.machine import describe, today, write_table

RESULTS = Path(__file__).with_name("RESULTS.md")
ROUNDS, ROUND_S = 5, 3.0
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
        cells = [self.line.work, self._number(RabbitMQ.name), self._number(MirrorMQ.name)]
        if theirs is None or ours is None:
            return [*cells, "–", self.line.promise(), "–"]
        ratio = self.line.ratio(theirs, ours)
        if self.line.target is None:
            return [*cells, f"{ratio:.2f} ×", "–", "–"]
        return [*cells, f"{ratio:.2f} ×", self.line.promise(), "yes" if self.line.met(ratio) else "no"]

    def _number(self, name: str) -> str:
        middle, values = self.median(name), self.rounds.get(name)
        if middle is None or not values:
            return self.error or "–"
        digits = 0 if self.line.unit == "msg/s" else 2
        text = f"{middle:,.{digits}f} {self.line.unit}"
        if len(values) > 1:
            text += f" ({min(values):,.{digits}f}–{max(values):,.{digits}f})"
        return text


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
        help="lines whose key matches: " + ", ".join(line.key for line in LINES),
    )
    parser.add_argument(
        "--rounds", type=int, default=0, help=f"rounds per line and broker (default {ROUNDS})"
    )
    parser.add_argument("--quick", action="store_true", help="one short round of each: a smoke test")
    parser.add_argument("--broker", choices=["both", "rabbitmq", "mirrormq"], default="both")
    return parser.parse_args(arguments)


def measure(
    lines: list[Line], brokers: list[Broker], rounds: int, seconds: float, console: Console
) -> list[Result]:
    """Measure all lines in all rounds, one broker at a time."""
    results = [Result(line) for line in lines]
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    # Draw only between measurements: a refreshing thread would take time from the brokers.
    with Progress(
        *columns, TimeElapsedColumn(), console=console, auto_refresh=False, transient=True
    ) as progress:
        task = progress.add_task("", total=len(lines) * len(brokers) * rounds)
        for result in results:
            for number in range(rounds):
                for broker in brokers:
                    progress.update(task, description=f"{result.line.key}, {broker.name}, round {number + 1}")
                    progress.refresh()
                    value = result.line.measure(broker, seconds)
                    result.rounds.setdefault(broker.name, []).append(value)
                    progress.advance(task)
            if not console.is_terminal:
                console.print("  ".join(result.cells()), soft_wrap=True)
    return results


def show(results: list[Result], console: Console) -> None:
    """Print the table."""
    table = Table(*HEADINGS)
    for result in results:
        cells = result.cells()
        table.add_row(*cells, style={"yes": "green", "no": "red"}.get(cells[-1]))
    console.print(table)


def write(results: list[Result], machine: list[str], rounds: int, seconds: float) -> None:
    """Write the table to RESULTS.md."""
    text = [
        "# MirrorMQ beside RabbitMQ",
        "",
        f"Written by `make bench` on {today()}: medians of {rounds} alternating rounds of {seconds:g} s,",
        "lowest and highest in brackets, both brokers in one run, never loaded at once. 100-byte bodies,",
        "one publisher, one consumer unless the line says otherwise. Both run with their defaults, RabbitMQ",
        "without plugins.",
    ]
    write_table(RESULTS, text, machine, HEADINGS, [result.cells() for result in results])


def main() -> int:
    """Run the benchmark; return 1 if a broker cannot be measured."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the brokers, too
    console = Console(stderr=False)
    lines = [line for line in LINES if fnmatch(line.key, options.only) or options.only in line.key]
    if not lines:
        print(
            f"bench: no line matches {options.only!r}; there are {', '.join(x.key for x in LINES)}",
            file=sys.stderr,
        )
        return 2
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = QUICK_ROUND_S if options.quick else ROUND_S
    version = RabbitMQ.version()
    machine = describe(version)
    brokers: list[Broker] = []
    if options.broker != "mirrormq" and version:
        brokers.append(RabbitMQ())
    elif not version:
        console.print(
            "RabbitMQ is not installed (Debian: apt install rabbitmq-server): MirrorMQ's numbers only."
        )
    if options.broker != "rabbitmq":
        brokers.append(MirrorMQ())
    try:
        for broker in brokers:
            broker.start()
        results = measure(lines, brokers, rounds, seconds, console)
    except (RuntimeError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        for broker in brokers:
            broker.stop()
    show(results, console)
    if len(lines) == len(LINES) and options.broker == "both":
        machine.append(f"load average after: {os.getloadavg()[0]:.2f}")
        write(results, machine, rounds, seconds)
        console.print(
            f"written to {RESULTS.relative_to(Path.cwd())}" if RESULTS.is_relative_to(Path.cwd()) else ""
        )
    else:
        console.print("a part of the table is not written to RESULTS.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
