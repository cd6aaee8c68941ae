"""Set of sequence numbers, as bits in chunks: long spans and scattered numbers cost equally little.

A queue of a million messages of which every second one is acknowledged is half a million spans of one, or a
thousand chunks of 1,024 bits. Python integers hold chunks of any size, so the intersection or difference of
two sets is one operation on a thousand numbers at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mirrormq.sequences.spans import Span, spans_of

CHUNK_BITS = 10
CHUNK = 1 << CHUNK_BITS
"""Numbers in a chunk: 1,024, in 128 bytes. A queue with one message pays that much, one with a million 128
KiB."""
OFFSET = CHUNK - 1
FULL = (1 << CHUNK) - 1


class PackedNumbers(msgspec.Struct, frozen=True, array_like=True):
    """Encoded SequenceSet for another node."""

    full: list[Span]
    """Full chunks: the number of the first one, and the count in a row."""
    partial: list[tuple[int, bytes]]
    """Other chunks: their numbers and bits, little-endian."""


class SequenceSet:
    """Set of numbers from 0 on."""

    __slots__ = ("_chunks", "count")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._chunks: dict[int, int] = {}
        """Bits of each chunk, by chunk number; never 0."""
        self.count = 0
        for first, size in spans:
            self.add(first, size)

    def __contains__(self, number: int) -> bool:
        return self._chunks.get(number >> CHUNK_BITS, 0) >> (number & OFFSET) & 1 == 1

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SequenceSet) and self._chunks == other._chunks

    __hash__ = None  # type: ignore[assignment]

    # -- changes --------------------------------------------------------------------------------

    def add(self, first: int, size: int = 1) -> None:
        """Add a span, parts of which may be present already."""
        end = first + size
        while first < end:
            step = min(CHUNK - (first & OFFSET), end - first)
            self.add_mask(first, (1 << step) - 1)
            first += step

    def add_mask(self, first: int, mask: int) -> None:
        """Add the numbers of a bit mask whose lowest bit is `first`. The mask must not leave a chunk."""
        number = first >> CHUNK_BITS
        before = self._chunks.get(number, 0)
        after = before | mask << (first & OFFSET)
        if after != before:
            self._chunks[number] = after
            self.count += after.bit_count() - before.bit_count()

    def remove(self, first: int, size: int = 1) -> int:
        """Remove a span, and return how many of its numbers were present."""
        if size <= 0:
            return 0
        before, end = self.count, first + size
        numbers: Iterable[int] = range(first >> CHUNK_BITS, (end - 1 >> CHUNK_BITS) + 1)
        if size >> CHUNK_BITS > len(self._chunks):
            # Fewer chunks exist than the span covers: visit those that exist.
            covered = numbers
            numbers = [number for number in self._chunks if number in covered]
        for number in numbers:
            if number in self._chunks:
                low = max(first, number << CHUNK_BITS) & OFFSET
                high = min(end, number + 1 << CHUNK_BITS) - (number << CHUNK_BITS)
                self._take(number, (1 << high) - (1 << low))
        return before - self.count

    def subtract(self, other: SequenceSet) -> None:
        """Remove all numbers of another set."""
        for number in self._chunks.keys() & other._chunks.keys():
            self._take(number, other._chunks[number])

    def _take(self, number: int, mask: int) -> None:
        before = self._chunks[number]
        after = before & ~mask
        self.count -= before.bit_count() - after.bit_count()
        if after:
            self._chunks[number] = after
        else:
            del self._chunks[number]

    # -- queries --------------------------------------------------------------------------------

    def copy(self) -> SequenceSet:
        twin = SequenceSet()
        twin._chunks = dict(self._chunks)
        twin.count = self.count
        return twin

    def spans(self) -> list[Span]:
        """Return all spans, ascending."""
        joined: list[Span] = []
        for first, size in self._spans():
            if joined and sum(joined[-1]) == first:
                joined[-1] = Span(joined[-1][0], joined[-1][1] + size)
            else:
                joined.append(Span(first, size))
        return joined

    def _spans(self) -> Iterator[Span]:
        """Yield spans, ascending. Adjacent ones are not joined across chunks."""
        for number in sorted(self._chunks):
            mask, base = self._chunks[number], number << CHUNK_BITS
            if mask == FULL:
                yield Span(base, CHUNK)
                continue
            digits = f"{mask:b}"[::-1]
            first = digits.find("1")
            while first >= 0:
                end = digits.find("0", first)
                end = len(digits) if end < 0 else end
                yield Span(base + first, end - first)
                first = digits.find("1", end)

    def numbers(self) -> Iterator[int]:
        """Yield each number, ascending."""
        for first, size in self._spans():
            yield from range(first, first + size)

    def first_numbers(self, limit: int) -> list[int]:
        """Return the lowest `limit` numbers."""
        lowest: list[int] = []
        for first, size in self._spans():
            lowest.extend(range(first, first + min(size, limit - len(lowest))))
            if len(lowest) >= limit:
                break
        return lowest

    # -- encoding -------------------------------------------------------------------------------

    def pack(self) -> PackedNumbers:
        """Encode the set for another node."""
        full = spans_of(sorted(number for number, mask in self._chunks.items() if mask == FULL))
        partial = [
            (number, mask.to_bytes((mask.bit_length() + 7) // 8, "little"))
            for number, mask in sorted(self._chunks.items())
            if mask != FULL
        ]
        return PackedNumbers(full, partial)


def unpack(packed: PackedNumbers) -> SequenceSet:
    """Decode a set that another node has encoded."""
    unpacked = SequenceSet()
    for first, size in packed.full:
        unpacked.add(first << CHUNK_BITS, size << CHUNK_BITS)
    for number, bits in packed.partial:
        unpacked.add_mask(number << CHUNK_BITS, int.from_bytes(bits, "little") & FULL)
    return unpacked
