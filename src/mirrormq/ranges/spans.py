"""Spans of sequence numbers: ascending (first, count) pairs that do not overlap or touch.

A lease of a million messages is mostly one span. A packed pair is two little-endian u64:
`np.frombuffer(packed, "<u8").reshape(-1, 2)` has them as two columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from zlib import crc32

__all__ = ["PAIR", "Span", "below", "common", "count_of", "digest", "joined", "pack", "unpack", "without"]

Span = tuple[int, int]
"""Pair of the first number and the count."""

PAIR = Struct("<QQ")


def pack(spans: Iterable[Span]) -> bytes:
    """Encode spans as bytes."""
    return b"".join([PAIR.pack(first, count) for first, count in spans])


def unpack(packed: bytes) -> list[Span]:
    """Decode the bytes of `pack`; ValueError if they are not ascending spans."""
    if len(packed) % PAIR.size:
        raise ValueError(f"{len(packed)} bytes are no whole number of spans")
    found = list(PAIR.iter_unpack(packed))
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
    found: list[Span] = []
    for first, count in sorted(spans):
        if found and first <= found[-1][0] + found[-1][1]:
            start = found[-1][0]
            found[-1] = (start, max(found[-1][1], first + count - start))
        else:
            found.append((first, count))
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
            found.append((first, end - first))
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
        look = at
        while look < len(other) and other[look][0] < end:
            hole, size = other[look]
            if hole > first:
                found.append((first, hole - first))
            first = max(first, hole + size)
            look += 1
        if first < end:
            found.append((first, end - first))
    return found


def below(spans: Sequence[Span], end: int) -> list[Span]:
    """Return the numbers lower than `end`."""
    return common(spans, [(0, end)]) if end > 0 else []
