"""Sample history of an object's numbers: bounded, finer for the last minutes than for the last day.

A level keeps one entry per time step, the latest of that step, and only if it differs from the previous
entry. An idle queue therefore costs one entry, however long it exists. A query (`samples`) is served by
the finest level that reaches back far enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from struct import Struct
from typing import NamedTuple

Numbers = tuple[int, ...]

ENTRIES_MAX = 200_000
"""Entries over all objects of a node: about 40 MB. If more objects are busy, each keeps fewer entries."""

ENTRIES_LEFT = 2
"""Entries that an object keeps at least."""


class SampleStep(NamedTuple):
    """Resolution and capacity of a level."""

    seconds: int
    entries: int


BASIC = (SampleStep(5, 121), SampleStep(60, 61))
"""Ten minutes and an hour: RabbitMQ's retention for channels and connections."""

DETAILED = BASIC[:1]
"""Ten minutes: RabbitMQ's retention for traffic between a channel and a queue or exchange."""

GLOBAL = (*BASIC, SampleStep(600, 49), SampleStep(1800, 49))
"""Ten minutes, an hour, eight hours and a day: RabbitMQ's retention for vhosts and nodes, here for queues and
exchanges too."""


class SampleRange(NamedTuple):
    """Requested history: how far back, and the interval between samples."""

    age_s: int
    step_s: int


class _Level:
    __slots__ = ("_cut", "_entries", "_packing", "step")

    def __init__(self, step: SampleStep, width: int) -> None:
        self.step = step
        self._packing = Struct(f"<{width}q")
        self._entries: deque[tuple[int, bytes]] = deque(maxlen=step.entries)
        self._cut = False
        """Whether entries were dropped: the numbers before the first entry are then unknown, instead of 0."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, at_s: float, numbers: Numbers, crowded: bool) -> None:
        entries, place = self._entries, int(at_s) // self.step.seconds
        packed = self._packing.pack(*numbers)
        # The same step, or a clock that was set back: replace the latest entry.
        if entries and entries[-1][0] >= place:
            entries[-1] = (entries[-1][0], packed)
        elif not entries or entries[-1][1] != packed:
            if len(entries) == entries.maxlen or (crowded and len(entries) >= ENTRIES_LEFT):
                entries.popleft()
                self._cut = True
            entries.append((place, packed))

    def at(self, times_s: list[int]) -> list[Numbers]:
        """Return the numbers at each of these times."""
        entries = list(self._entries)
        places = [place for place, _ in entries]
        found: list[Numbers] = []
        for time_s in times_s:
            index = bisect_right(places, time_s // self.step.seconds) - 1
            if index < 0 and not (self._cut and entries):
                found.append((0,) * (self._packing.size // 8))
            else:
                found.append(self._packing.unpack(entries[max(0, index)][1]))
        return found


class SampleTrack:
    """Numbers of one object: the last sample, its rates, and its history."""

    __slots__ = ("_levels", "_taken_s", "numbers", "rates")

    def __init__(self, width: int, steps: tuple[SampleStep, ...] = BASIC) -> None:
        self.numbers: Numbers = (0,) * width
        self.rates: tuple[float, ...] = (0.0,) * width
        self._taken_s = 0.0
        self._levels = [_Level(step, width) for step in steps]

    @property
    def entries(self) -> int:
        """Number of stored entries."""
        return sum([len(level) for level in self._levels])

    def take(self, now_s: float, wall_s: float, numbers: Numbers, crowded: bool) -> None:
        """Add a sample; `now_s` is a monotonic clock."""
        if numbers == self.numbers:
            if any(self.rates):
                self.rates = (0.0,) * len(numbers)
            self._taken_s = now_s
            return
        passed_s = now_s - self._taken_s
        if self._taken_s and passed_s > 0:
            pairs = zip(numbers, self.numbers, strict=True)
            self.rates = tuple([(new - old) / passed_s for new, old in pairs])
        self._taken_s = now_s
        self.numbers = numbers
        for level in self._levels:
            level.put(wall_s, numbers, crowded)

    def samples(self, wanted: SampleRange, wall_s: float) -> tuple[list[int], list[Numbers]]:
        """Return times and numbers, the latest first."""
        level = next((level for level in self._levels if _reaches(level, wanted)), self._levels[-1])
        times = times_of(wanted, wall_s)
        return times, level.at(times)


def _reaches(level: _Level, wanted: SampleRange) -> bool:
    return level.step.seconds * (level.step.entries - 1) >= wanted.age_s


def times_of(wanted: SampleRange, wall_s: float) -> list[int]:
    """Return the times of a range, the latest first."""
    latest = int(wall_s) // BASIC[0].seconds * BASIC[0].seconds
    return [latest - offset for offset in range(0, wanted.age_s + 1, wanted.step_s)]


def total(parts: list[list[Numbers]]) -> list[Numbers]:
    """Return the sum of several histories."""
    return [tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*parts, strict=True)]
