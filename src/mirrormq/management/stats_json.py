"""JSON of statistics in RabbitMQ's form: each number with its `_details`, in groups, with past samples if
requested."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from mirrormq.management.counter_kinds import DATA, LENGTHS, CounterKind
from mirrormq.management.sample_history import Numbers, SampleRange


class TrackedCounter(Protocol):
    """Source of rates and past samples."""

    rates: tuple[float, ...]

    def samples(self, wanted: SampleRange, wall_s: float) -> tuple[list[int], list[Numbers]]:
        """Return times and numbers, the latest first."""


def with_details(
    names: Sequence[str],
    numbers: Sequence[int],
    track: TrackedCounter | None,
    at: int,
    wanted: SampleRange | None,
) -> dict[str, Any]:
    """Return the numbers by name, each with its `_details`; in the track they begin at index `at`."""
    times: list[int] = []
    rows: list[Numbers] = []
    if track is not None and wanted is not None:
        times, rows = track.samples(wanted, time.time())
    shown: dict[str, Any] = {}
    for index, (name, number) in enumerate(zip(names, numbers, strict=True), at):
        shown[name] = number
        if rows and wanted is not None:
            shown[f"{name}_details"] = _past(times, [row[index] for row in rows], wanted)
        else:
            shown[f"{name}_details"] = {"rate": track.rates[index] if track is not None else 0.0}
    return shown


def _past(times: list[int], values: list[int], wanted: SampleRange) -> dict[str, Any]:
    steps = len(values) - 1
    grown = values[0] - values[-1]
    return {
        "rate": (values[0] - values[1]) / wanted.step_s if steps else 0.0,
        "samples": [
            {"sample": value, "timestamp": time_s * 1000} for time_s, value in zip(times, values, strict=True)
        ],
        "avg_rate": grown / (steps * wanted.step_s) if steps else 0.0,
        "avg": sum(values) / len(values),
    }


def message_stats(
    kind: CounterKind, numbers: Numbers, track: TrackedCounter | None, wanted: SampleRange | None
) -> dict[str, Any]:
    """Return `message_stats` with the groups that have a number above 0; empty if there is none."""
    shown: dict[str, Any] = {}
    for at, names in kind.groups:
        if any(found := numbers[at : at + len(names)]):
            shown |= with_details(names, found, track, at, wanted)
    return {"message_stats": shown} if shown else {}


def lengths(
    kind: CounterKind, numbers: Numbers, track: TrackedCounter | None, wanted: SampleRange | None
) -> dict[str, Any]:
    """Return the queue lengths."""
    start = kind.lengths_at
    return with_details(LENGTHS, numbers[start : start + len(LENGTHS)], track, start, wanted)


def data(
    kind: CounterKind, numbers: Numbers, track: TrackedCounter | None, wanted: SampleRange | None
) -> dict[str, Any]:
    """Return the received and sent bytes; empty if both are 0."""
    start = kind.data_at
    counts = numbers[start : start + len(DATA)]
    return with_details(DATA, counts, track, start, wanted) if any(counts) else {}
