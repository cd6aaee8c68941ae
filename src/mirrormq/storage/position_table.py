"""Position table of one queue: sequence → position and body size, 12 bytes per message.

The table consists of chunks of 256 sequences in two arrays. Position 0 means "not stored", and a chunk
without messages is dropped. Whole runs are written and cleared as array slices, at C speed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Final

from mirrormq.sequences.spans import Span

CHUNK_BITS: Final = 8
"""Size of a chunk, 256: a queue with one stored message pays for one chunk, 3 KiB, and there may be 10,000
queues."""
CHUNK: Final = 1 << CHUNK_BITS
MASK: Final = CHUNK - 1
NO_POSITIONS = array("Q", bytes(8 * CHUNK))
NO_SIZES = array("I", bytes(4 * CHUNK))
EVERY_BIT = (1 << CHUNK) - 1
DIGITS = bytes.maketrans(b"\x00\x01", b"01")


SPARE_CHUNKS_MAX: Final = 64
"""Empty chunks that are kept for the next use, 192 KiB: a queue whose messages come and go one by one would
need a new one for each."""
_spare: Final[list[tuple[array[int], array[int]]]] = []


class PositionTable:
    """Live stored messages of one queue."""

    __slots__ = ("chunks", "count", "counts", "size_bytes", "sizes")

    def __init__(self) -> None:
        self.chunks: dict[int, array[int]] = {}
        self.sizes: dict[int, array[int]] = {}
        self.counts: dict[int, int] = {}
        self.count = 0
        self.size_bytes = 0
        """Body bytes of all messages in the table."""

    def get(self, sequence: int) -> int:
        """Return the position; 0 if there is none."""
        chunk = self.chunks.get(sequence >> CHUNK_BITS)
        return chunk[sequence & MASK] if chunk is not None else 0

    def size_of(self, sequence: int) -> int:
        """Return the body size; 0 if there is none."""
        sizes = self.sizes.get(sequence >> CHUNK_BITS)
        return sizes[sequence & MASK] if sizes is not None else 0

    def put(self, sequence: int, position: int, size: int) -> int:
        """Set one position. Return the position it replaces, 0 if none."""
        number = sequence >> CHUNK_BITS
        chunk = self.chunks.get(number)
        if chunk is None:
            chunk = self.add_chunk(number)
        index = sequence & MASK
        old = chunk[index]
        sizes = self.sizes[number]
        if old:
            self.size_bytes -= sizes[index]
        else:
            self.counts[number] += 1
            self.count += 1
        chunk[index] = position
        sizes[index] = size
        self.size_bytes += size
        return old

    def put_run(self, first: int, positions: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Set consecutive sequences from `first` on. Return the positions that were replaced."""
        replaced: list[int] = []
        done = 0
        while done < len(positions):
            number, index = (first + done) >> CHUNK_BITS, (first + done) & MASK
            step = min(CHUNK - index, len(positions) - done)
            if number in self.chunks:
                replaced += [old for old in self.clear(first + done, step) if old]
            chunk = self.chunks.get(number)
            if chunk is None:
                chunk = self.add_chunk(number)
            new_sizes = array("I", sizes[done : done + step])
            chunk[index : index + step] = array("Q", positions[done : done + step])
            self.sizes[number][index : index + step] = new_sizes
            self.counts[number] += step
            self.count += step
            self.size_bytes += sum(new_sizes)
            done += step
        return replaced

    def add_chunk(self, number: int) -> array[int]:
        """Add an empty chunk."""
        if _spare:
            chunk, self.sizes[number] = _spare.pop()
        else:
            chunk, self.sizes[number] = NO_POSITIONS[:], NO_SIZES[:]
        self.chunks[number] = chunk
        self.counts[number] = 0
        return chunk

    def chunk(self, number: int) -> tuple[array[int], array[int]]:
        """Return positions and sizes of a chunk, and create it if necessary. For recovery, which counts at
        its end."""
        chunk = self.chunks.get(number)
        if chunk is None:
            chunk = self.add_chunk(number)
        return chunk, self.sizes[number]

    def clear(self, first: int, count: int) -> array[int]:
        """Clear a run inside one chunk. Return its previous positions, zeros included."""
        number, index = first >> CHUNK_BITS, first & MASK
        chunk = self.chunks.get(number)
        if chunk is None:
            return array("Q")
        end = index + count
        old = chunk[index:end]
        removed = count - old.count(0)
        if removed:
            sizes = self.sizes[number]
            self.size_bytes -= sum(sizes[index:end])
            self.count -= removed
            self.counts[number] -= removed
            if self.counts[number] == 0:
                del self.chunks[number], self.sizes[number], self.counts[number]
            else:
                chunk[index:end] = NO_POSITIONS[index:end]
                sizes[index:end] = NO_SIZES[index:end]
        return old

    def take(self, sequence: int) -> int:
        """Clear one; gives back its position, 0 if there is none."""
        number, at = sequence >> CHUNK_BITS, sequence & MASK
        chunk = self.chunks.get(number)
        if chunk is None:
            return 0
        position = chunk[at]
        if position:
            sizes = self.sizes[number]
            self.size_bytes -= sizes[at]
            self.count -= 1
            left = self.counts[number] - 1
            chunk[at] = sizes[at] = 0
            if left:
                self.counts[number] = left
            else:
                del self.chunks[number], self.sizes[number], self.counts[number]
                if len(_spare) < SPARE_CHUNKS_MAX:
                    _spare.append((chunk, sizes))
        return position

    def clear_run(self, first: int, count: int) -> Iterator[array[int]]:
        """Clear a run of any length, chunk by chunk."""
        for number in self._touched(first, count):
            low = max(first, number << CHUNK_BITS)
            high = min(first + count, (number + 1) << CHUNK_BITS)
            yield self.clear(low, high - low)

    def _touched(self, first: int, count: int) -> Sequence[int]:
        """Return the numbers of the chunks that a run touches. A very long run costs only the existing
        chunks."""
        numbers = range(first >> CHUNK_BITS, ((first + count - 1) >> CHUNK_BITS) + 1)
        if len(numbers) <= max(4, len(self.chunks)):
            return numbers
        return [number for number in self.chunks if number in numbers]

    def wipe(self, first: int, count: int) -> None:
        """Clear a run without counting; recovery counts at its end."""
        end = first + count
        for number in self._touched(first, count):
            chunk = self.chunks.get(number)
            if chunk is not None:
                base = number << CHUNK_BITS
                low, high = max(first - base, 0), min(end - base, CHUNK)
                chunk[low:high] = NO_POSITIONS[low:high]
                self.sizes[number][low:high] = NO_SIZES[low:high]

    def stored_in(self, first: int, last: int) -> list[int]:
        """Return the sequences whose positions are in [first, last). Scans the whole table."""
        return [
            (number << CHUNK_BITS) + at
            for number, chunk in self.chunks.items()
            for at, position in enumerate(chunk)
            if first <= position < last
        ]

    def positions(self, sequences: Sequence[int]) -> list[int]:
        """Return the positions of several sequences; consecutive ones, the usual case, by slices."""
        first, count = sequences[0], len(sequences)
        if sequences[-1] - first + 1 != count or list(sequences) != list(range(first, first + count)):
            return [self.get(sequence) for sequence in sequences]
        positions: list[int] = []
        while len(positions) < count:
            number, index = (first + len(positions)) >> CHUNK_BITS, (first + len(positions)) & MASK
            chunk = self.chunks.get(number, NO_POSITIONS)
            positions += chunk[index : index + count - len(positions)]
        return positions

    def live(self) -> array[int]:
        """Return all sequences in the table, ascending."""
        sequences = array("Q")
        for number in sorted(self.chunks):
            base = number << CHUNK_BITS
            sequences.extend(compress(range(base, base + CHUNK), self.chunks[number]))
        return sequences

    def between(self, first: int, end: int, limit: int) -> list[int]:
        """Return the lowest `limit` sequences in the table that are in [first, end)."""
        sequences: list[int] = []
        number, last = first >> CHUNK_BITS, end - 1 >> CHUNK_BITS
        while number <= last and len(sequences) < limit:
            chunk = self.chunks.get(number)
            if chunk is None:
                number = min([other for other in self.chunks if other > number], default=last + 1)
                continue
            base = number << CHUNK_BITS
            if self.counts[number] == CHUNK and first <= base and base + CHUNK <= end:
                sequences += range(base, base + CHUNK)
            else:
                low, high = max(first - base, 0), min(end - base, CHUNK)
                sequences += compress(range(base + low, base + high), chunk[low:high])
            number += 1
        return sequences[:limit]

    def run_bytes(self, first: int, count: int) -> int:
        """Return the body bytes of consecutive sequences. Sequences that are not in the table count as 0."""
        total = 0
        for number in self._touched(first, count):
            sizes = self.sizes.get(number)
            if sizes is not None:
                base = number << CHUNK_BITS
                total += sum(sizes[max(first - base, 0) : min(first + count - base, CHUNK)])
        return total

    def masks(self) -> Iterator[tuple[int, int]]:
        """Yield the stored sequences as bit masks: (first sequence of a chunk, its bits, lowest sequence
        first)."""
        for number, chunk in self.chunks.items():
            if self.counts[number] == CHUNK:
                yield number << CHUNK_BITS, EVERY_BIT
            else:
                digits = bytes(map(bool, reversed(chunk))).translate(DIGITS)
                yield number << CHUNK_BITS, int(digits, 2)

    def missing(self, first: int, last: int) -> list[Span]:
        """Return the spans of [first, last] that are not in the table."""
        ranges: list[Span] = []
        start = first
        for number in sorted(self.chunks):
            base = number << CHUNK_BITS
            if base > last or base + CHUNK <= first:
                continue
            for sequence in compress(range(base, base + CHUNK), self.chunks[number]):
                if sequence > last:
                    break
                if sequence >= first:
                    if sequence > start:
                        ranges.append(Span(start, sequence - start))
                    start = sequence + 1
        if start <= last:
            ranges.append(Span(start, last - start + 1))
        return ranges

    def recount(self) -> None:
        """Restore the counters after a recovery that wrote the arrays directly."""
        self.count = self.size_bytes = 0
        for number in list(self.chunks):
            chunk = self.chunks[number]
            live = CHUNK - chunk.count(0)
            if live == 0:
                del self.chunks[number], self.sizes[number]
                self.counts.pop(number, None)
                continue
            self.counts[number] = live
            self.count += live
            self.size_bytes += sum(self.sizes[number])
