"""Rounds that were measured before, so that a table can be measured in parts and survives an interruption.

Every line is stored as soon as it is measured, in build/bench/TABLE.json. A later run adds its lines to those
of the same tree: same revision, no changes that are not committed, same build, same seconds per round. A line
that is measured again replaces its rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import CHANGED

DIRECTORY = Path(__file__).resolve().parent.parent / "build" / "bench"

Rounds = Mapping[str, list[Any]]
"""Measurements by contestant: numbers, or the fields of a `Cost`."""


@dataclass(slots=True)
class KeptLine:
    """Rounds of one line by contestant, or why it could not be measured."""

    rounds: Rounds
    error: str
    load_average: float
    """Load average when the line's measurement began."""


class KeptRounds:
    """Measured lines of one table, by key."""

    def __init__(self, table: str, tree: str, directory: Path = DIRECTORY) -> None:
        """`tree` tells what was measured; lines of anything else are forgotten."""
        self._file = directory / f"{table}.json"
        self._tree = tree
        self._lines: dict[str, KeptLine] = {}
        if CHANGED in tree or not self._file.exists():
            return
        stored = json.loads(self._file.read_text())
        if stored["tree"] == tree:
            self._lines = {key: KeptLine(**line) for key, line in stored["lines"].items()}

    def put(self, key: str, rounds: Rounds, error: str, load_average: float) -> None:
        """Store a line that has just been measured."""
        self._lines[key] = KeptLine(rounds, error, load_average)
        stored = {"tree": self._tree, "lines": {name: asdict(line) for name, line in self._lines.items()}}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(stored, indent=1) + "\n")

    def rounds(self, key: str) -> dict[str, list[Any]]:
        return dict(self._lines[key].rounds)

    def error(self, key: str) -> str:
        return self._lines[key].error

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of lines that were not measured."""
        return [key for key in keys if key not in self._lines]

    def facts(self) -> list[str]:
        """Return the number of rounds and the load average, for the table's page."""
        counts = {len(values) for line in self._lines.values() for values in line.rounds.values()} or {0}
        loads = [line.load_average for line in self._lines.values()]
        return [
            f"rounds per line and broker: {_span(min(counts), max(counts))}",
            f"load average before each line: {_span(f'{min(loads):.2f}', f'{max(loads):.2f}')}",
        ]


def _span(lowest: object, highest: object) -> str:
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
