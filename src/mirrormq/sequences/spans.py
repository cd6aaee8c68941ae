"""Spans of sequence numbers. Lists of spans ascend and do not overlap or touch.

A lease of a million messages is mostly one span. A packed pair is two little-endian u64:
`np.frombuffer(packed, "<u8").reshape(-1, 2)` has them as two columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, cast
from zlib import crc32

__all__ = [
    "PAIR",
    "Interval",
    "Span",
    "below",
    "common",
    "count_of",
    "digest",
    "interval",
    "intervals_of",
    "joined",
    "joined_intervals",
    "pack",
    "span",
    "spans_of",
    "spans_of_unordered",
    "unpack",
    "without",
]


class Span(NamedTuple):
    """Consecutive numbers, as the first one and how many there are."""

    first: int
    length: int

    @property
    def end(self) -> int:
        """Number after the last one."""
        return self.first + self.length


class Interval(NamedTuple):
    """Consecutive numbers, as the first and the last one."""

    first: int
    last: int


_new_tuple: Final[Callable[[type, tuple[int, int]], Any]] = tuple.__new__


def span(first: int, length: int) -> Span:
    """Return a span. Quicker in compiled code than its class, whose `__new__` is interpreted."""
    return cast(Span, _new_tuple(Span, (first, length)))


def interval(first: int, last: int) -> Interval:
    """Return an interval, as quickly as `span`."""
    return cast(Interval, _new_tuple(Interval, (first, last)))


PAIR = Struct("<QQ")


def pack(spans: Iterable[Span]) -> bytes:
    """Encode spans as bytes."""
    return b"".join([PAIR.pack(first, count) for first, count in spans])


def unpack(packed: bytes) -> list[Span]:
    """Decode the bytes of `pack`; ValueError if they are not ascending spans."""
    if len(packed) % PAIR.size:
        raise ValueError(f"{len(packed)} bytes are no whole number of spans")
    found = list(map(Span._make, PAIR.iter_unpack(packed)))
    before = -1
    for first, count in found:
        if first < before or not count:
            raise ValueError("spans must ascend and must not overlap")
        before = first + count
    return found


def digest(packed: Iterable[bytes]) -> int:
    """Return a checksum over the packed spans of several takes, to compare them."""
    found = 0
    for each in packed:
        found = crc32(each, found)
    return found


def count_of(spans: Iterable[Span]) -> int:
    """Return the number of sequences in all spans."""
    return sum([count for _, count in spans])


def joined(spans: Iterable[Span]) -> list[Span]:
    """Sort and merge spans that may overlap."""
    ordered = sorted(spans)
    if not ordered:
        return []
    found: list[Span] = []
    start, length = ordered[0]
    end = start + length
    for first, length in ordered:
        if first > end:
            found.append(span(start, end - start))
            start = first
            end = first + length
        elif first + length > end:
            end = first + length
    found.append(span(start, end - start))
    return found


def spans_of(ascending: Sequence[int]) -> list[Span]:
    """Return ascending numbers without repetition as spans; takes constant time if there are no gaps."""
    if not ascending:
        return []
    first, count = ascending[0], len(ascending)
    if ascending[-1] - first == count - 1:
        return [span(first, count)]
    found: list[Span] = []
    previous = first
    for number in ascending:
        if number > previous + 1:
            found.append(span(first, previous - first + 1))
            first = number
        previous = number
    found.append(span(first, previous - first + 1))
    return found


def spans_of_unordered(numbers: Iterable[int]) -> list[Span]:
    """Return numbers in any order as spans; repeated numbers count once."""
    ordered = sorted(numbers)
    distinct = set(ordered)
    return spans_of(ordered if len(distinct) == len(ordered) else sorted(distinct))


def intervals_of(numbers: Iterable[int]) -> list[Interval]:
    """Return numbers in any order as ascending intervals."""
    return [interval(first, first + length - 1) for first, length in spans_of_unordered(numbers)]


def joined_intervals(intervals: list[Interval]) -> list[Interval]:
    """Sort intervals that do not overlap, and join adjacent ones."""
    if len(intervals) < 2:
        return intervals
    intervals.sort()
    found = [intervals[0]]
    for following in intervals[1:]:
        if following[0] == found[-1][1] + 1:
            found[-1] = interval(found[-1][0], following[1])
        else:
            found.append(following)
    return found


def common(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """Return the numbers that are in both."""
    found: list[Span] = []
    left = right = 0
    while left < len(one) and right < len(other):
        first = max(one[left][0], other[right][0])
        left_end, right_end = sum(one[left]), sum(other[right])
        end = min(left_end, right_end)
        if first < end:
            found.append(Span(first, end - first))
        if left_end <= right_end:
            left += 1
        else:
            right += 1
    return found


def without(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """Return the numbers of the first that are not in the second."""
    found: list[Span] = []
    at = 0
    for first, count in one:
        end = first + count
        while at < len(other) and sum(other[at]) <= first:
            at += 1
        position = at
        while position < len(other) and other[position][0] < end:
            removed, size = other[position]
            if removed > first:
                found.append(Span(first, removed - first))
            first = max(first, removed + size)
            position += 1
        if first < end:
            found.append(Span(first, end - first))
    return found


def below(spans: Sequence[Span], end: int) -> list[Span]:
    """Return the numbers lower than `end`."""
    return common(spans, [Span(0, end)]) if end > 0 else []
