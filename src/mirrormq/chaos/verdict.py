"""Total-queue check: every confirmed message was delivered, and every delivered message had been sent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

COLUMNS = ["kind", "queue", "publisher", "number", "redelivered"]

Name = tuple[str, int, int]
"""Message: queue, publisher, number."""


class ChaosVerdict(NamedTuple):
    """Message counts by outcome, with the messages of wrong outcomes."""

    attempted: int
    confirmed: int
    delivered: int
    duplicated: int
    unflagged: int
    """Repeated deliveries without the redelivered flag."""
    lost: list[Name]
    """Messages that were confirmed and never delivered."""
    unexpected: list[Name]
    """Messages that were delivered and never sent."""

    @property
    def sound(self) -> bool:
        return not self.lost and not self.unexpected

    def lines(self) -> list[str]:
        """Return the verdict as text lines."""
        first = (
            f"attempted {self.attempted:,}, confirmed {self.confirmed:,}, delivered {self.delivered:,}, "
            f"delivered again {self.duplicated:,} (without the redelivered flag: {self.unflagged:,})"
        )
        return [first, f"lost {len(self.lost):,}, unexpected {len(self.unexpected):,}"]


def judge(history: Path) -> ChaosVerdict:
    """Judge a whole history."""
    rows: list[tuple[str, Name, bool]] = []
    for file in sorted(history.glob("*.parquet")):
        table = pq.read_table(file, columns=COLUMNS).to_pydict()
        names = zip(table["queue"], table["publisher"], table["number"], strict=True)
        rows += [
            (kind, name, bool(again))
            for kind, name, again in zip(table["kind"], names, table["redelivered"], strict=True)
            if kind in ("attempted", "confirmed", "delivered")
        ]
    return judge_rows(rows)


def judge_rows(rows: Iterable[tuple[str, Name, bool]]) -> ChaosVerdict:
    """Judge rows of (kind, message, redelivered), in any order."""
    attempted: set[Name] = set()
    confirmed: set[Name] = set()
    fresh: dict[Name, int] = {}
    seen: dict[Name, int] = {}
    for kind, name, again in rows:
        if kind == "attempted":
            attempted.add(name)
        elif kind == "confirmed":
            confirmed.add(name)
        else:
            seen[name] = seen.get(name, 0) + 1
            fresh[name] = fresh.get(name, 0) + (not again)
    return ChaosVerdict(
        attempted=len(attempted),
        confirmed=len(confirmed),
        delivered=len(seen),
        duplicated=sum(count > 1 for count in seen.values()),
        unflagged=sum(count > 1 for count in fresh.values()),
        lost=sorted(confirmed - seen.keys()),
        unexpected=sorted(seen.keys() - attempted),
    )
