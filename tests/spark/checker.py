"""Independent checker: the audit's rules in plain Python over the rows of one small history.

It is written from `docs/audit.md`, with multisets and loops where the audit has sums and joins. The two share
no line, and agree only if both follow the document.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from itertools import pairwise

from tests.spark.events import Event

Table = dict[Hashable, Hashable]
TICK_NS = 10_000_000
PARTS = (0.5, 0.95, 0.99)


class Verdict:
    """Complete result of the audit for one history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.time_ns)
        self.by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            self.by_kind[event.kind].append(event)
        self.of = {kind: Counter(map(message, rows)) for kind, rows in self.by_kind.items()}

    def multiset(self, kind: str) -> Counter[Hashable]:
        """Count the events of this kind by message."""
        return self.of.get(kind, Counter())

    def classes(self) -> dict[str, int]:
        """Return the sizes of the total-queue checker's multisets, and ours."""
        attempted, delivered = self.multiset("attempted"), self.multiset("delivered")
        confirmed = self.multiset("confirmed") - self.multiset("returned")
        unexpected = Counter({key: n for key, n in delivered.items() if key not in attempted})
        unflagged = Counter(message(row) for row in self.by_kind["delivered"] if not row.redelivered)
        ok = delivered & attempted
        acknowledged_at: dict[Hashable, int] = {}
        for row in self.by_kind["acknowledged"]:
            acknowledged_at.setdefault(message(row), row.time_ns)
        came_back = {
            message(row)
            for row in self.by_kind["delivered"]
            if row.time_ns > acknowledged_at.get(message(row), row.time_ns)
        }
        return {
            "attempted": attempted.total(),
            "confirmed": confirmed.total(),
            "nacked": self.multiset("nacked").total(),
            "returned": self.multiset("returned").total(),
            "unknown": (attempted - self.multiset("confirmed") - self.multiset("nacked")).total(),
            "delivered": delivered.total(),
            "ok": ok.total(),
            "lost": self.lost().total(),
            "unexpected": unexpected.total(),
            "duplicated": (delivered - attempted - unexpected).total(),
            "recovered": (ok - confirmed).total(),
            "unflagged": (unflagged - attempted - unexpected).total(),
            "came_back": len(came_back),
        }

    def lost(self) -> Counter[Hashable]:
        """Return confirmed messages that were not delivered."""
        return self.multiset("confirmed") - self.multiset("returned") - self.multiset("delivered")

    def inversions(self) -> int:
        """Return deliveries after a higher number of the same incarnations of publisher and consumer, in one
        queue."""
        highest: dict[Hashable, int] = {}
        starts = self.first_numbers()
        found = 0
        rows = [
            row
            for row in self.by_kind["delivered"]
            if not row.redelivered and row.attempt in (None, 1) and None not in (row.publisher, row.number)
        ]
        for row in sorted(rows, key=lambda row: (row.time_ns, row.number)):
            assert row.number is not None
            cuts = {
                other.time_ns
                for other in self.by_kind["disconnected"] + self.by_kind["cancelled"]
                if row.consumer is not None
                and other.consumer == row.consumer
                and other.time_ns <= row.time_ns
            }
            born = [number for number in starts.get(row.publisher, ()) if number <= row.number]
            stream = (row.queue, row.consumer, row.publisher, len(cuts), len(born))
            found += row.number < highest.get(stream, row.number)
            highest[stream] = max(row.number, highest.get(stream, row.number))
        return found

    def first_numbers(self) -> dict[int | None, list[int]]:
        """Return the lowest number that each publisher attempted in each incarnation after the first."""
        found: dict[int | None, list[int]] = {}
        for publisher in {row.publisher for row in self.by_kind["attempted"]}:
            cuts = {row.time_ns for row in self.by_kind["disconnected"] if row.publisher == publisher}
            incarnations: dict[int, list[int]] = defaultdict(list)
            for row in self.by_kind["attempted"]:
                if row.publisher == publisher and row.number is not None:
                    incarnations[sum(cut <= row.time_ns for cut in cuts)].append(row.number)
            found[publisher] = [min(numbers) for incarnation, numbers in incarnations.items() if incarnation]
        return found

    def splits(self) -> Table:
        """(queue, epoch) with two masters → whether two confirmed."""
        masters: dict[Hashable, set[str | None]] = defaultdict(set)
        confirming: dict[Hashable, set[str | None]] = defaultdict(set)
        for kind, table in (("master", masters), ("master_confirmed", confirming)):
            for row in self.by_kind[kind]:
                if row.epoch is not None:
                    table[row.queue, row.epoch].add(row.node)
        return {
            key: len(confirming[key]) > 1
            for key in masters.keys() | confirming.keys()
            if len(masters[key] | confirming[key]) > 1
        }

    def divergences(self) -> Table:
        """(queue, epoch, sequence) → how many different checksums, where there is more than one."""
        seen: dict[Hashable, set[int]] = defaultdict(set)
        for row in self.by_kind["replica"]:
            if row.checksum is not None:
                seen[row.queue, row.epoch, row.sequence].add(row.checksum)
        return {place: len(checksums) for place, checksums in seen.items() if len(checksums) > 1}

    def lost_at(self) -> list[tuple[str | None, int, int]]:
        """(queue, millisecond of the first confirm, how many) of what was lost."""
        first: dict[Hashable, Event] = {}
        for row in self.by_kind["confirmed"]:
            first.setdefault(message(row), row)
        return [(first[key].queue, first[key].time_ns // 1_000_000, n) for key, n in self.lost().items()]

    def lost_by_fault(self) -> Table:
        """(fault, relation) → lost."""
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        for row in self.by_kind["fault_began"]:
            if row.fault is not None:
                begins.setdefault(row.fault, row.time_ns // 1_000_000)
        for row in self.by_kind["fault_ended"]:
            if row.fault is not None:
                ends[row.fault] = row.time_ns // 1_000_000
        found: Counter[Hashable] = Counter()
        for _, at, lost in self.lost_at():
            around = [(begin, fault) for fault, begin in begins.items() if begin <= at <= ends.get(fault, at)]
            later = [(begin, fault) for fault, begin in begins.items() if begin > at]
            if around:
                found[max(around)[1], "during"] += lost
            elif later:
                found[min(later)[1], "before"] += lost
            else:
                found[None, "apart"] += lost
        return dict(found)

    def lost_by_epoch(self) -> Table:
        """(queue, epoch) → lost."""
        since: dict[tuple[str | None, int], int] = {}
        for row in self.events:
            if row.kind in ("master", "master_confirmed") and row.epoch is not None:
                since.setdefault((row.queue, row.epoch), row.time_ns // 1_000_000)
        found: Counter[Hashable] = Counter()
        for queue, at, lost in self.lost_at():
            started = [
                (begin, epoch) for (other, epoch), begin in since.items() if other == queue and begin <= at
            ]
            found[queue, max(started)[1] if started else None] += lost
        return dict(found)

    def silences(self) -> Table:
        """(node, kind) → the longest silence, one tick at least."""
        times: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row in self.events:
            if row.node is not None:
                times[row.node, row.kind].append(row.time_ns)
        nodes = {node for node, _ in times}
        attempts = [row.time_ns for row in self.by_kind["attempted"] if row.node is not None]
        found: Table = {}
        for node in nodes:
            confirms = times.get((node, "confirmed"), [])
            if tried := times.get((node, "attempted")):
                confirms = sorted([*confirms, min(tried + confirms), max(attempts + confirms)])
            for kind, points in (("confirmed", confirms), ("delivered", times.get((node, "delivered"), []))):
                if points:
                    steps = [later - earlier for earlier, later in pairwise(points)]
                    found[node, kind] = max([TICK_NS, *steps])
        return found

    def latencies(self) -> dict[str, list[int]]:
        """All latencies of messages that were attempted once, sorted, by measure."""
        firsts: dict[str, dict[Hashable, int]] = {}
        for kind in ("attempted", "confirmed", "delivered"):
            firsts[kind] = {}
            for row in self.by_kind[kind]:
                firsts[kind].setdefault(message(row), row.time_ns)
        promised = self.multiset("confirmed") - self.multiset("returned")
        once = [key for key, n in self.multiset("attempted").items() if n == 1]
        start = firsts["attempted"]
        return {
            "confirm": sorted(
                max(firsts["confirmed"][key] - start[key], 0) for key in once if key in promised
            ),
            "delivery": sorted(
                max(firsts["delivered"][key] - start[key], 0) for key in once if key in firsts["delivered"]
            ),
        }


def message(row: Event) -> Hashable:
    """Return the identity of a message within a run."""
    return row.queue, row.publisher, row.number


def percentile(values: list[int], part: float) -> int:
    """Return the smallest value that at least `part` of all do not exceed."""
    return values[max(math.ceil(part * len(values)), 1) - 1]
