"""Intervals (first, last) of numbers. Most numbers that are settled together were sent together."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.remote.remote_messages import Range


def ranges_of(numbers: Sequence[int]) -> list[Range]:
    """Convert distinct numbers, in any order, to ascending intervals."""
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    if high - low == len(numbers) - 1:
        return [(low, high)]
    intervals: list[Range] = []
    first = previous = low
    for number in sorted(numbers):
        if number > previous + 1:
            intervals.append((first, previous))
            first = number
        previous = number
    intervals.append((first, previous))
    return intervals


def merged(ranges: list[Range]) -> list[Range]:
    """Sort intervals and join adjacent ones."""
    if len(ranges) < 2:
        return ranges
    ranges.sort()
    joined = [ranges[0]]
    for first, last in ranges[1:]:
        if first == joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
