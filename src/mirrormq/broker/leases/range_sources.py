"""Where the messages of a range come from: the journal, and what is in memory only.

A master and a mirror keep their messages in the same two places, so both are read alike, a slice at a time.
What consumers hold is in the range too, because it is in the queue; only what they hold of a queue that is
neither mirrored nor on disk cannot be shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from mirrormq.queues.envelope import address_of
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import BatchEnvelope
from mirrormq.ranges.spans import Span, below, common
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.storage.column_reader import GatheredColumns, Run
from mirrormq.storage.queue_store import JournalQueue


class RangeSource(NamedTuple):
    """One copy of a queue."""

    store: JournalQueue
    peek_unstored: Callable[[int, int, int], list[Message]]
    """Messages in memory only: from, up to, how many."""
    delivered_up_to: Callable[[], int]
    alive: Callable[[], bool]
    """Is the copy still what it was?"""


def master_source(queue: Queue, store: JournalQueue) -> RangeSource:
    """The copy of a queue whose master this node is."""

    def peek_unstored(first: int, end: int, limit: int) -> list[Message]:
        return queue.backing.peek_unstored(first, end, limit)  # by whoever keeps them then

    return RangeSource(
        store,
        peek_unstored,
        lambda: max(queue.delivered_up_to, store.delivered_up_to),
        lambda: not queue.deleted and not store.erased,
    )


def mirror_source(copy: MirrorCopy, store: JournalQueue, alive: Callable[[], bool]) -> RangeSource:
    """A mirror's copy."""
    return RangeSource(
        store, copy.peek_unstored, lambda: copy.delivered_up_to, lambda: not store.erased and alive()
    )


class RangeSlice(NamedTuple):
    """Some messages, and where to go on."""

    found: GatheredColumns
    redelivered: bytes
    """For each 1 if it may have been with a consumer, else 0."""
    size_bytes: int
    """Of their bodies."""
    next: int


def read_slice(source: RangeSource, wanted: Sequence[Span], rows: int, size_bytes: int) -> RangeSlice:
    """The first messages with numbers in `wanted`; a single one may be larger than `size_bytes`."""
    first, end = wanted[0][0], sum(wanted[-1])
    numbers: list[int] = []
    memory: dict[int, Message] = {}
    reached = end
    for start, count in wanted:
        stored = source.store.between(start, start + count, rows - len(numbers))
        unstored = source.peek_unstored(start, start + count, rows - len(numbers))
        numbers += stored
        if unstored:
            memory |= {message.sequence: message for message in unstored}
            numbers = sorted([*numbers, *(message.sequence for message in unstored)])
        if len(numbers) >= rows:
            reached = numbers[rows - 1] + 1
            del numbers[rows:]
            break
    if memory or not _fit(source, numbers, size_bytes):
        kept = _first_that_fit(source, numbers, memory, size_bytes)
        if kept < len(numbers):
            reached = numbers[kept]
            del numbers[kept:]
    found = _gather(source, numbers, memory)
    flags = _redelivered(found.sequences, memory, source.delivered_up_to())
    return RangeSlice(found, flags, sum(map(len, found.bodies)), max(reached, first))


def _fit(source: RangeSource, numbers: list[int], size_bytes: int) -> bool:
    """Is all that is stored from the first to the last of these not too much? Then neither are they."""
    if not numbers:
        return True
    return source.store.run_bytes(numbers[0], numbers[-1] - numbers[0] + 1) <= size_bytes


def _first_that_fit(
    source: RangeSource, numbers: list[int], memory: dict[int, Message], size_bytes: int
) -> int:
    """How many of them are not too large together; one at least."""
    total_bytes = 0
    for kept, number in enumerate(numbers):
        total_bytes += memory[number].body_size if number in memory else source.store.size_of(number)
        if kept and total_bytes > size_bytes:
            return kept
    return len(numbers)


def _gather(source: RangeSource, numbers: list[int], memory: dict[int, Message]) -> GatheredColumns:
    found = GatheredColumns()
    if not memory:
        source.store.gather(numbers, found)
        return found
    for in_memory, some in groupby(numbers, memory.__contains__):
        if in_memory:
            for message in map(memory.__getitem__, some):
                found.add(message.sequence, message.envelope.publish, message.frames, message.ingested_ms)
        else:
            source.store.gather(list(some), found)
    return found


def _redelivered(sequences: list[int], memory: dict[int, Message], delivered_up_to: int) -> bytes:
    """Ascending numbers are so up to one of them; what is in memory only knows for itself."""
    delivered = bisect_right(sequences, delivered_up_to)
    flags = bytearray(b"\1") * delivered + bytes(len(sequences) - delivered)
    for place, sequence in enumerate(sequences) if memory else ():
        if sequence in memory and memory[sequence].redelivered:
            flags[place] = 1
    return bytes(flags)


class ColumnBuilder:
    """Messages on their way into a batch."""

    def __init__(self) -> None:
        self._builder = BatchBuilder()
        self._addressed: dict[bytes, tuple[bytes, bytes]] = {}
        """Exchange and routing key of each publish payload."""

    @property
    def rows(self) -> int:
        """How many messages there are."""
        return self._builder.rows

    @property
    def size_bytes(self) -> int:
        """Of their bodies."""
        return self._builder.body_bytes

    def add(self, read: RangeSlice) -> None:
        """Add messages behind those that are there."""
        found = read.found
        envelopes = [(self._envelope(run), run[2]) for run in found.runs]
        self._builder.add(found.sequences, envelopes, read.redelivered, found.bodies)

    def _envelope(self, run: Run) -> BatchEnvelope:
        publish, properties, _ = run
        addressed = self._addressed.get(publish)
        if addressed is None:
            addressed = self._addressed[publish] = address_of(publish)
        return BatchEnvelope(addressed[0], addressed[1], properties)

    def encode(self) -> bytes:
        """As a batch."""
        return self._builder.finish()


def within(wanted: Sequence[Span] | None, first: int, end: int) -> list[Span]:
    """The stretches that are asked for, of [first, end)."""
    if first >= end:
        return []
    if wanted is None:
        return [(first, end - first)]
    return common(below(wanted, end), [(first, end - first)])
