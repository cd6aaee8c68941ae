"""Sources of a range's messages: the journal, and messages that are in memory only.

A master and a mirror store their messages in the same two places, so both are read alike, one slice at a
time. Messages that consumers hold are in the range too, because they are in the queue. Only unacknowledged
messages of a queue that is neither mirrored nor on disk cannot be shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import compress, groupby
from typing import NamedTuple

from mirrormq.queues.envelope import address_of
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import BatchEnvelope
from mirrormq.ranges.time_range import TimeRange
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.sequences.spans import Span, below, common
from mirrormq.storage.column_reader import GatheredColumns, Run
from mirrormq.storage.queue_store import JournalQueue


class RangeSource(NamedTuple):
    """Source of messages: one copy of a queue."""

    store: JournalQueue
    peek_unstored: Callable[[int, int, int], list[Message]]
    """Returns messages that are in memory only: from, up to, limit."""
    delivered_up_to: Callable[[], int]
    alive: Callable[[], bool]
    """Returns whether the copy is still valid."""


def master_source(queue: Queue, store: JournalQueue) -> RangeSource:
    """Return the source for a queue whose master is this node."""

    def peek_unstored(first: int, end: int, limit: int) -> list[Message]:
        return queue.backing.peek_unstored(first, end, limit)  # the backing queue may change meanwhile

    return RangeSource(
        store,
        peek_unstored,
        lambda: max(queue.marks.delivered_up_to, store.delivered_up_to),
        lambda: not queue.deleted and not store.erased,
    )


def mirror_source(copy: MirrorCopy, store: JournalQueue, alive: Callable[[], bool]) -> RangeSource:
    """Return the source for a mirror's copy."""
    return RangeSource(
        store, copy.peek_unstored, lambda: copy.delivered_up_to, lambda: not store.erased and alive()
    )


class RangeSlice(NamedTuple):
    """Messages of one slice, and the sequence at which to continue."""

    found: GatheredColumns
    redelivered: bytes
    """For each message 1 if it may have been delivered to a consumer, else 0."""
    size_bytes: int
    """Body bytes of the messages."""
    next: int
    damaged: Sequence[int] = ()
    """Sequences that are left out, because their records are damaged on this node's disk."""


def read_slice(source: RangeSource, wanted: Sequence[Span], rows: int, size_bytes: int) -> RangeSlice:
    """Return the first messages with sequences in `wanted`. A single message may exceed `size_bytes`."""
    first, end = wanted[0][0], sum(wanted[-1])
    sequences: list[int] = []
    memory: dict[int, Message] = {}
    reached = end
    for start, count in wanted:
        stored = source.store.between(start, start + count, rows - len(sequences))
        unstored = source.peek_unstored(start, start + count, rows - len(sequences))
        sequences += stored
        if unstored:
            memory |= {message.sequence: message for message in unstored}
            sequences = sorted([*sequences, *(message.sequence for message in unstored)])
        if len(sequences) >= rows:
            reached = sequences[rows - 1] + 1
            del sequences[rows:]
            break
    if memory or not _fit(source, sequences, size_bytes):
        kept = _first_that_fit(source, sequences, memory, size_bytes)
        if kept < len(sequences):
            reached = sequences[kept]
            del sequences[kept:]
    columns = _gather(source, sequences, memory)
    flags = _redelivered(columns.sequences, memory, source.delivered_up_to())
    damaged = _without(sequences, columns.sequences)
    return RangeSlice(columns, flags, sum(map(len, columns.bodies)), max(reached, first), damaged)


def ingested_within(read: RangeSlice, times: TimeRange) -> RangeSlice:
    """Return the messages of a slice with ingestion times in a range."""
    found = read.found
    wanted = [times.from_ms <= time_ms < times.to_ms for time_ms in found.ingested_ms]
    if all(wanted):
        return read
    kept = found.selected(wanted)
    flags = bytes(compress(read.redelivered, wanted))
    return read._replace(found=kept, redelivered=flags, size_bytes=sum(map(len, kept.bodies)))


def _without(wanted: list[int], found: list[int]) -> Sequence[int]:
    return sorted(set(wanted).difference(found)) if len(found) < len(wanted) else ()


def _fit(source: RangeSource, sequences: list[int], size_bytes: int) -> bool:
    """Return whether everything stored from the first to the last of these sequences fits; then they fit
    too."""
    if not sequences:
        return True
    return source.store.run_bytes(sequences[0], sequences[-1] - sequences[0] + 1) <= size_bytes


def _first_that_fit(
    source: RangeSource, sequences: list[int], memory: dict[int, Message], size_bytes: int
) -> int:
    """Return how many of the first messages fit together; at least one."""
    total_bytes = 0
    for kept, number in enumerate(sequences):
        total_bytes += memory[number].body_size if number in memory else source.store.size_of(number)
        if kept and total_bytes > size_bytes:
            return kept
    return len(sequences)


def _gather(source: RangeSource, sequences: list[int], memory: dict[int, Message]) -> GatheredColumns:
    columns = GatheredColumns()
    if not memory:
        source.store.gather(sequences, columns)
        return columns
    for in_memory, run in groupby(sequences, memory.__contains__):
        if in_memory:
            for message in map(memory.__getitem__, run):
                columns.add(message.sequence, message.envelope.publish, message.frames, message.ingested_ms)
        else:
            source.store.gather(list(run), columns)
    return columns


def _redelivered(sequences: list[int], memory: dict[int, Message], delivered_up_to: int) -> bytes:
    """Return the redelivery flags. Ascending sequences are redelivered up to a mark; a message in memory
    has its own flag."""
    delivered = bisect_right(sequences, delivered_up_to)
    flags = bytearray(b"\1") * delivered + bytes(len(sequences) - delivered)
    for index, sequence in enumerate(sequences) if memory else ():
        if sequence in memory and memory[sequence].redelivered:
            flags[index] = 1
    return bytes(flags)


class ColumnBuilder:
    """Builder of a column batch."""

    def __init__(self, *, without_bodies: bool = False, with_ingestion_times: bool = False) -> None:
        self._builder = BatchBuilder(with_ingestion_times=with_ingestion_times)
        self._without_bodies = without_bodies
        self._addressed: dict[bytes, tuple[bytes, bytes]] = {}
        """Exchange and routing key of each publish payload."""

    @property
    def rows(self) -> int:
        """Number of messages."""
        return self._builder.rows

    @property
    def size_bytes(self) -> int:
        """Body bytes of the messages."""
        return self._builder.body_bytes

    def add(self, read: RangeSlice) -> None:
        """Append the messages of a slice."""
        columns = read.found
        envelopes = [(self._envelope(run), run[2]) for run in columns.runs]
        bodies = [b""] * len(columns.bodies) if self._without_bodies else columns.bodies
        self._builder.add(columns.sequences, envelopes, read.redelivered, bodies, columns.ingested_ms)

    def _envelope(self, run: Run) -> BatchEnvelope:
        publish, properties, _ = run
        addressed = self._addressed.get(publish)
        if addressed is None:
            addressed = self._addressed[publish] = address_of(publish)
        return BatchEnvelope(addressed[0], addressed[1], properties)

    def encode(self) -> bytes:
        """Return the encoded batch."""
        return self._builder.finish()


def within(wanted: Sequence[Span] | None, first: int, end: int) -> list[Span]:
    """Return the requested spans within [first, end)."""
    if first >= end:
        return []
    if wanted is None:
        return [Span(first, end - first)]
    return common(below(wanted, end), [Span(first, end - first)])
