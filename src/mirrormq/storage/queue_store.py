"""Journal of one queue: its table of live messages, and its records that are not written yet.

Messages are buffered at once, in order. Acknowledgements and delivery marks are collected here and become
records when the journal flushes. A consumer that acknowledges messages one by one then costs one span, not
a thousand records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.message import Message
from mirrormq.sequences.spans import Span, joined, span, spans_of_unordered
from mirrormq.storage import journal_records
from mirrormq.storage.column_reader import GatheredColumns
from mirrormq.storage.journal_errors import DamagedMessages, JournalFailed
from mirrormq.storage.position_table import CHUNK_BITS, PositionTable
from mirrormq.storage.segments import widen

if TYPE_CHECKING:
    from mirrormq.storage.journal import Journal

EVERY_SEQUENCE = (0, (1 << 64) - 1)
"""Interval of sequences that an ERASED record covers."""


class JournalQueue:
    """Stored messages of one queue. Implements `QueueStore`; created by `Journal.queue`."""

    __slots__ = (
        "_acknowledged",
        "_acknowledged_highest",
        "_delivered_pending",
        "_journal",
        "delivered_segment",
        "delivered_up_to",
        "erased",
        "known",
        "next_segment",
        "next_sequence",
        "paged",
        "queue_id",
        "table",
    )

    def __init__(self, journal: Journal, queue_id: int) -> None:
        self._journal = journal
        self._acknowledged: list[Span] = []
        self._acknowledged_highest = 0
        """Highest sequence with a pending acknowledgement; no higher one can have one."""
        self._delivered_pending = False
        self.queue_id = queue_id
        self.table = PositionTable()
        """Durable messages."""
        self.paged = PositionTable()
        """Messages that are on disk only to save memory; recovery does not find them."""
        self.next_sequence = 1
        """Lowest sequence that the journal does not know to be used. A restart begins with it."""
        self.next_segment = 0
        """Number of the segment with the record that establishes `next_sequence`."""
        self.delivered_up_to = 0
        self.delivered_segment = 0
        self.known = False
        """Whether recovery would find anything about this queue."""
        self.erased = False

    @property
    def live_count(self) -> int:
        """Number of stored messages."""
        return self.table.count + self.paged.count

    @property
    def live_bytes(self) -> int:
        """Body bytes of the stored messages."""
        return self.table.size_bytes + self.paged.size_bytes

    @property
    def durable_count(self) -> int:
        """Number of stored messages that recovery would find."""
        return self.table.count

    @property
    def durable_bytes(self) -> int:
        """Body bytes of the stored messages that recovery would find."""
        return self.table.size_bytes

    def recovered(self) -> array[int]:
        """Return the sequences of the durable messages, ascending."""
        return self.table.live()

    def held(self) -> array[int]:
        """Return the sequences of all stored messages, ascending."""
        if not self.paged.count:
            return self.table.live()
        return array("Q", sorted([*self.table.live(), *self.paged.live()]))

    @property
    def now_ms(self) -> int:
        """Present time: the ingestion time of messages that are published now."""
        return self._journal.writer.clock.now_ms

    def append(self, messages: Sequence[Message], *, durable: bool) -> None:
        """Write messages and set their `position`. Messages that are not durable are only paged out;
        recovery drops them."""
        if not messages:
            return
        self.check()
        flags = journal_records.DURABLE if durable else 0
        writer = self._journal.writer
        sequences, positions, sizes = writer.append_messages(self.queue_id, messages, flags)
        self.point(sequences, positions, sizes, durable)

    def append_one(self, message: Message) -> None:
        """Write one durable message whose number is higher than any before."""
        self.check()
        position = self._journal.writer.append_message(self.queue_id, message)
        sequence = message.sequence
        self.table.put(sequence, position, message.body_size)
        self.known = True
        if sequence >= self.next_sequence:
            self.next_sequence = sequence + 1
            self.next_segment = position >> 32

    def append_contents(
        self, first: int, publishes: Sequence[bytes], contents: Sequence[bytes], expires_at: int, *,
        durable: bool, ingested_ms: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Write messages, given as publish payloads and contents, with sequences `first`, `first + 1` …
        `ingested_ms` has the ingestion time of each; if it is empty they get the present time."""
        self.check()
        flags = journal_records.DURABLE if durable else 0
        writer = self._journal.writer
        positions, sizes = writer.append_contents(
            self.queue_id, first, publishes, contents, expires_at, flags, ingested_ms
        )
        self.point(list(range(first, first + len(positions))), positions, sizes, durable)

    def point(
        self, sequences: list[int], positions: Sequence[int], sizes: Sequence[int], durable: bool
    ) -> None:
        """Update tables and counters after messages were written."""
        table, other = (self.table, self.paged) if durable else (self.paged, self.table)
        first, count = sequences[0], len(sequences)
        if count == 1:
            old = table.put(first, positions[0], sizes[0])
            replaced = [old] if old else []
        elif sequences == list(range(first, first + count)):
            replaced = table.put_run(first, positions, sizes)
        else:
            replaced = [old for old in map(table.put, sequences, positions, sizes) if old]
        # A message has one live record: a durable copy replaces a paged one, and the reverse.
        if other.count:
            replaced += [old for number in sequences for old in other.clear(number, 1) if old]
        if replaced:
            self._journal.segments.release(replaced)
        if self._acknowledged and min(sequences) <= self._acknowledged_highest:
            self._unacknowledge(sequences)
        highest = max(sequences)
        if durable:
            self.known = True
            if highest >= self.next_sequence:
                self.next_sequence = highest + 1
                self.next_segment = positions[-1] >> 32

    def _unacknowledge(self, sequences: Sequence[int]) -> None:
        """Remove sequences that are stored again from the pending acknowledgements, which would delete
        them at replay."""
        kept = {number for first, count in self._acknowledged for number in range(first, first + count)}
        kept.difference_update(sequences)
        self._acknowledged = spans_of_unordered(kept)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove messages that have a position."""
        self.forget([message.sequence for message in messages if message.position])

    def acknowledge_one(self, sequence: int) -> None:
        """Forget one message."""
        self.check()
        position = self.table.take(sequence)
        if position:
            self._acknowledged.append(span(sequence, 1))
            if sequence > self._acknowledged_highest:
                self._acknowledged_highest = sequence
            self._journal.touched[self.queue_id] = self
        if self.paged.count:
            self._journal.segments.release([self.paged.take(sequence)])
        if position:
            self._journal.segments.by_number[position >> 32].live -= 1

    def forget(self, sequences: Sequence[int]) -> None:
        """Remove messages by sequence, for callers without message objects (paged out)."""
        if sequences:
            self.forget_ranges(spans_of_unordered(sequences))

    def forget_ranges(self, ranges: Sequence[Span]) -> None:
        """Remove ascending spans. They may contain sequences that are not stored."""
        self.check()
        durable_before = self.table.count
        for table in (self.table, self.paged):
            if table.count:
                self._clear(table, ranges)
        if self.table.count < durable_before:
            self._acknowledged += ranges
            highest = ranges[-1][0] + ranges[-1][1] - 1
            self._acknowledged_highest = max(self._acknowledged_highest, highest)
            self._journal.touched[self.queue_id] = self

    def _clear(self, table: PositionTable, ranges: Sequence[Span]) -> None:
        """Remove spans from a table. The consumers of a queue take its messages in turn, so the
        acknowledgements of one consumer are many spans of one message each."""
        segments = self._journal.segments
        for first, count in ranges:
            if count == 1:
                position = table.take(first)
                if position:
                    segments.by_number[position >> 32].live -= 1
            elif first >> CHUNK_BITS == first + count - 1 >> CHUNK_BITS:
                segments.release(table.clear(first, count))
            else:
                for positions in table.clear_run(first, count):
                    segments.release(positions)

    def has(self, sequence: int) -> bool:
        """Return whether this message is stored."""
        return self.table.get(sequence) != 0 or self.paged.get(sequence) != 0

    def size_of(self, sequence: int) -> int:
        """Return the body size of a stored message; 0 if it is not stored."""
        return self.table.size_of(sequence) or self.paged.size_of(sequence)

    def between(self, first: int, end: int, limit: int) -> list[int]:
        """Return the lowest `limit` stored sequences in [first, end), ascending."""
        sequences = self.table.between(first, end, limit)
        if self.paged.count:
            sequences = sorted(sequences + self.paged.between(first, end, limit))[:limit]
        return sequences

    def run_bytes(self, first: int, count: int) -> int:
        """Return the body bytes of the stored messages among consecutive sequences."""
        return self.table.run_bytes(first, count) + self.paged.run_bytes(first, count)

    def masks(self) -> Iterator[tuple[int, int]]:
        """Yield the stored sequences as bit masks: (first sequence, bits from there on, lowest first)."""
        yield from self.table.masks()
        yield from self.paged.masks()

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Read messages in the requested order. Raise DamagedMessages for damaged records."""
        self.check()
        return self._journal.loader.load(self.queue_id, self.table, self.paged, sequences)

    def load_intact(self, sequences: Sequence[int]) -> list[Message]:
        """Read messages in the requested order, without those whose records are damaged."""
        try:
            return self.load(sequences)
        except DamagedMessages as damage:
            damaged = set(damage.sequences)
            return self.load([sequence for sequence in sequences if sequence not in damaged])

    def gather(self, sequences: Sequence[int], into: GatheredColumns) -> None:
        """Read messages with these ascending sequences as columns. Damaged records are left out."""
        self.check()
        self._journal.gatherer.gather(self.queue_id, self.table, self.paged, sequences, into)

    def awaits_repair(self, sequences: Iterable[int]) -> bool:
        """Return whether another node may have a good copy of one of these damaged messages."""
        return self._journal.damage.awaits_repair(self.queue_id, sequences)

    def rewrite(self, message: Message) -> bool:
        """Append a good copy of a stored message whose record is damaged, and point the table at the copy.
        Return False if the message is no longer stored or is another one."""
        self.check()
        sequence = message.sequence
        if not self.has(sequence) or self.size_of(sequence) != message.body_size:
            return False
        self.append([message], durable=self.table.get(sequence) != 0)
        self._journal.damage.repaired(self.queue_id, sequence)
        return True

    def producer_ids(self) -> dict[str, int]:
        """Return the recorded highest publish id of each producer."""
        return dict(self._journal.producer_ids.of_queue(self.queue_id))

    def record_producer_id(self, highest: Mapping[str, int], mark: int) -> None:
        """Record the highest publish ids that producers reached with the messages below `mark`."""
        self._journal.producer_ids.raise_to(self.queue_id, highest, mark)

    def forget_producers(self, names: Iterable[str]) -> None:
        """Remove the recorded publish ids of these producers."""
        self._journal.producer_ids.forget_producers(self.queue_id, names)

    def replace_producer_ids(self, highest: Mapping[str, int], mark: int) -> None:
        """Replace the recorded highest publish id of every producer."""
        self._journal.producer_ids.replace(self.queue_id, highest, mark)

    def delivered(self, sequence: int) -> None:
        """Record that everything up to `sequence` was delivered to a consumer at least once."""
        if sequence > self.delivered_up_to and self.known:
            self.delivered_up_to = sequence
            self._delivered_pending = True
            self._journal.touched[self.queue_id] = self

    def reserve(self, next_sequence: int) -> None:
        """Record that sequences below `next_sequence` are used, also by messages that were never stored.
        They must not be used again after a restart. Writes ahead, so that frequent calls are cheap."""
        self.check()
        if next_sequence > self.next_sequence:
            self.next_sequence = next_sequence + self._journal.limits.sequence_reserve
            self.write_next()

    def erase(self) -> None:
        """Delete everything about this queue. This object cannot be used afterwards."""
        self.check()
        for table in (self.table, self.paged):
            for chunk in table.chunks.values():
                self._journal.segments.release(chunk)
        self.table, self.paged = PositionTable(), PositionTable()
        self._acknowledged = []
        self.erased = True
        self._journal.drop_queue(self)
        if self.known:
            self._journal.write_erased(self.queue_id)

    def check(self) -> None:
        """Raise an error after a failure or an erase."""
        failure = self._journal.writer.failure
        if failure is not None:
            raise JournalFailed(failure)
        if self.erased:
            raise ValueError(f"queue {self.queue_id} was erased from the journal")

    def write_pending(self) -> None:
        """Convert collected acknowledgements and the delivery mark to records."""
        if self._acknowledged:
            ranges, self._acknowledged = self._acknowledged, []
            if len(ranges) > 1:
                ranges = joined(ranges)
            self.write_acknowledgements(ranges)
        if self._delivered_pending:
            self._delivered_pending = False
            self.write_delivered()

    def write_acknowledgements(self, ranges: Sequence[Span]) -> None:
        """Append ACK records for ascending spans."""
        writer = self._journal.writer
        count = writer.ack_ranges_per_record
        for start in range(0, len(ranges), count):
            part = ranges[start : start + count] if len(ranges) > count else ranges
            position = writer.append(journal_records.acknowledgement_body(self.queue_id, part))
            highest = part[-1][0] + part[-1][1] - 1
            number = position >> 32
            widen(self._journal.segments.by_number[number].acknowledged, self.queue_id, part[0][0], highest)
            if highest >= self.next_sequence:
                self.next_sequence = highest + 1
                self.next_segment = number

    def write_next(self) -> None:
        """Append a NEXT record."""
        body = journal_records.QUEUE_SEQUENCE.pack(journal_records.NEXT, self.queue_id, self.next_sequence)
        self.next_segment = self._journal.writer.append(body) >> 32
        self.known = True

    def write_delivered(self) -> None:
        """Append a DELIVERED record."""
        body = journal_records.QUEUE_SEQUENCE.pack(
            journal_records.DELIVERED, self.queue_id, self.delivered_up_to
        )
        self.delivered_segment = self._journal.writer.append(body) >> 32
