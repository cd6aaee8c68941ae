"""A set of sequence numbers, kept as ranges: queues hold long unbroken stretches of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""The first number, and how many."""


class RangeSet:
    """Numbers as sorted, separate stretches [first, end)."""

    __slots__ = ("_ends", "_firsts", "count")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.count = 0
        for first, size in ranges:
            self.add(first, size)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def ranges(self) -> list[Range]:
        """All of it, ascending."""
        return [(first, end - first) for first, end in zip(self._firsts, self._ends, strict=True)]

    def numbers(self) -> Iterator[int]:
        """Each number, ascending."""
        for first, end in zip(self._firsts, self._ends, strict=True):
            yield from range(first, end)

    def first_numbers(self, limit: int) -> list[int]:
        """The lowest `limit` numbers."""
        found: list[int] = []
        for first, end in zip(self._firsts, self._ends, strict=True):
            found.extend(range(first, min(end, first + limit - len(found))))
            if len(found) >= limit:
                break
        return found

    def add(self, first: int, size: int = 1) -> None:
        """Put a stretch in; parts of it may be there already."""
        if size <= 0:
            return
        end = first + size
        low, high = self._touching(first, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self.count += end - first - self._covered(low, high)
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    def remove(self, first: int, size: int = 1) -> int:
        """Take a stretch out; says how many numbers of it were there."""
        if size <= 0:
            return 0
        end = first + size
        low, high = self._touching(first, end)
        before = self._covered(low, high)
        rest = [
            (start, stop)
            for old_first, old_end in zip(self._firsts[low:high], self._ends[low:high], strict=True)
            for start, stop in ((old_first, min(old_end, first)), (max(old_first, end), old_end))
            if start < stop
        ]
        self._firsts[low:high] = [start for start, _ in rest]
        self._ends[low:high] = [stop for _, stop in rest]
        removed = before - sum(stop - start for start, stop in rest)
        self.count -= removed
        return removed

    def _touching(self, first: int, end: int) -> tuple[int, int]:
        """The stretches that overlap or adjoin [first, end)."""
        low = bisect_right(self._firsts, first)
        if low and self._ends[low - 1] >= first:
            low -= 1
        return low, max(low, bisect_right(self._firsts, end))

    def _covered(self, low: int, high: int) -> int:
        return sum(self._ends[at] - self._firsts[at] for at in range(low, high))


def ranges_of(numbers: Iterable[int]) -> list[Range]:
    """Ascending numbers as ranges."""
    found: list[Range] = []
    first = previous = None
    for number in numbers:
        if previous is None or number != previous + 1:
            if first is not None and previous is not None:
                found.append((first, previous - first + 1))
            first = number
        previous = number
    if first is not None and previous is not None:
        found.append((first, previous - first + 1))
    return found
