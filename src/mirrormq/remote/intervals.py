"""Numbers as ranges: what is settled together was mostly sent together."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.remote.remote_messages import Range


def ranges_of(numbers: Sequence[int]) -> list[Range]:
    """Different numbers, in any order, as ascending (first, last)."""
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    if high - low == len(numbers) - 1:
        return [(low, high)]
    found: list[Range] = []
    first = previous = low
    for number in sorted(numbers):
        if number > previous + 1:
            found.append((first, previous))
            first = number
        previous = number
    found.append((first, previous))
    return found


def merged(ranges: list[Range]) -> list[Range]:
    """Sorted, with neighbours joined."""
    if len(ranges) < 2:
        return ranges
    ranges.sort()
    found = [ranges[0]]
    for first, last in ranges[1:]:
        if first == found[-1][1] + 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found
