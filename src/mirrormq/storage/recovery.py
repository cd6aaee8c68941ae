"""Recovery: rebuilds the queues' tables from the segment files.

Guarantee. Everything that `Journal.flush(sync=True)` covered before it returned exists after any crash, in
the order it was written. A durable message that was not acknowledged is found; one whose acknowledgement
was covered too is not. A record that does not match its checksum is never delivered. Each dropped span of
bytes is reported with its file, offset, length and reason.

Not guaranteed. Bytes written after the last sync may survive in whole, in part, or not at all. An
acknowledged message can therefore come back (it was delivered before, and is marked redelivered), and an
unconfirmed one may exist or not. A damaged ACK record brings its messages back. A damaged MESSAGE record
loses that message on this node. A damaged NEXT record may let sequences be used twice when nothing else of
the queue is left. Paged-only records are never recovered.

Replay. The journal is a history: the state of a queue is the result of replaying MESSAGE, ACK, ERASED,
DELIVERED and NEXT records in order, segment by segment, offset by offset. Replay is the definition;
everything else (tables, counters, the shutdown index) must agree with it. A later MESSAGE for the same
(queue, sequence) replaces an earlier one: compaction writes such records.

Carrying acknowledgements forward. A segment without live messages should be deleted, wherever it lies. But
it also holds ACK records, which may refer to messages in *older* segments. Those segments may still exist
because of other, live messages in them. If the ACK is deleted, the next replay brings an acknowledged
message back. Deleting only from the oldest segment on would let one forgotten message pin the disk for
ever. Compacting every older segment first would copy segments that are not sparse.

Freeing segment A therefore first writes ACK records at the tail. They cover, for each queue that A
acknowledges and each older segment O that stores it, all sequences in O's interval that are *not live now*.
This requires no reading of A or O, because "not live now" is in the table. It is true at the moment it is
written, which is all that replay requires of a record. In the same way A's NEXT and DELIVERED knowledge
moves to the tail if no newer record implies it.

Invariants.

1. Only the newest segment can hold unsynced bytes; a segment is synced before the next one exists.
2. A segment's name and header are durable before any record in it counts as synced.
3. Nothing is appended to a segment of an earlier run: after `open` the next append starts a new one. A torn
   tail is cut off. The bytes read from the last segment are synced before they are used, because the page
   cache of a killed process is not yet the disk.
4. Replaying the existing segments gives, at any time, the tables in memory, except for buffered or
   unsynced records, and for paged-only messages.
5. A segment is removed only after everything that 4 needs without it was synced, and its removal is
   durable before another segment is removed. A removed segment that came back after a crash would find its
   acknowledgements gone. The manifest removes it from its list before, so it would not be replayed.
6. A table never points into a removed segment.
7. The shutdown index is removed, durably, before the first byte that would make it wrong.

After damage the scan looks for the next valid record: first where the damaged record says it ends, then
byte by byte for a known kind, a possible length and a matching checksum. Zeros up to the end of a segment
without a listed length are its unused, preallocated part, not damage.
`docs/decisions/0060-journal-format-2.md` defines damage and torn tails; `inventory.py` decides which files
belong to the journal at all.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from mirrormq.storage import journal_records
from mirrormq.storage.disk import Disk
from mirrormq.storage.inventory import SegmentInventory, SegmentVerdict
from mirrormq.storage.position_table import CHUNK_BITS, MASK
from mirrormq.storage.queue_store import EVERY_SEQUENCE, JournalQueue
from mirrormq.storage.record_search import find_record, valid_body, written_end, zeros_from
from mirrormq.storage.recovery_report import Dropped, RecoveryReport
from mirrormq.storage.segment_header import DATA_AT as SEGMENT_DATA_AT
from mirrormq.storage.segment_header import read_segment_header
from mirrormq.storage.segments import Segment, Segments, widen

DURABLE_MESSAGE = bytes((journal_records.MESSAGE, journal_records.DURABLE))
"""First bytes of the body of a durable message with its own content."""
WHOLE_HEAD = Struct("<II" + journal_records.MESSAGE_HEAD.format.removeprefix("<"))
"""Prefix of a record and head of a message."""


class Recovery:
    """One scan over all segments."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        make_queue: Callable[[int], JournalQueue],
        report: RecoveryReport,
        inventory: SegmentInventory,
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._make_queue = make_queue
        self._report = report
        self._inventory = inventory
        self._queues: dict[int, JournalQueue] = {}
        self._synced = 0
        """Offset in the segment up to which a record says that everything was synced."""
        self._owner = -1
        """Offset of the last valid record whose content another record shares."""
        self._without_content: list[tuple[int, int, int, int]] = []
        """Messages whose content is in a damaged record: (its offset, queue, sequence, position)."""

    def run(self, queues: dict[int, JournalQueue]) -> None:
        """Replay all segments into `queues`."""
        self._queues = queues
        for number in self._segments.found():
            self._recover_segment(number)
        for store in queues.values():
            store.known = True
            store.table.recount()
            for chunk in store.table.chunks.values():
                self._segments.claim(chunk)

    def _recover_segment(self, number: int) -> None:
        path, inventory = self._segments.path(number), self._inventory
        file = self._disk.open(path)
        data = file.read(file.size(), 0)
        header = read_segment_header(data)
        checksum = journal_records.checksum_named(header.checksum_name) if header is not None else None
        if checksum is None:
            header = None
        data_at = SEGMENT_DATA_AT if header is None else header.data_at
        verdict, reason = inventory.judge(number, header, not data[data_at:].strip(b"\0"))
        if reason:
            inventory.drop(path, 0, len(data), reason)
        if header is None or checksum is None or verdict is not SegmentVerdict.REPLAY:
            file.close()
            if verdict is SegmentVerdict.REMOVE:
                inventory.remove(path)
            else:
                inventory.set_aside(path, verdict)
            return
        segment = Segment(number, header.checksum_name, checksum, header.salt, header.format)
        end = self._scan(segment, data)
        if end < len(data):
            file.truncate(end)
        if end < len(data) or not inventory.length_of(number):
            file.sync()
        file.close()
        segment.used_bytes = end
        self._segments.adopt(segment)

    def _scan(self, segment: Segment, data: bytes) -> int:
        """Replay one segment. Return the end of its last valid record."""
        inventory, number = self._inventory, segment.number
        length = inventory.length_of(number)
        at = end = segment.data_at
        self._synced, self._owner, self._without_content, holes = 0, -1, [], []
        if length and len(data) > length:
            inventory.drop_span(number, length, len(data), "longer than it was when it was sealed")
            data = data[:length]
        while True:
            at = end = self._replay(segment, data, at)
            if at == len(data) or (not length and zeros_from(data, at)):
                break
            at = find_record(segment.checksum, segment.salt, data, at)
            if at < 0:
                # With length 0 the segment may be unsealed, and the rest is a torn tail. Otherwise all its
                # bytes were synced, and the rest is damage.
                if length != 0:
                    inventory.drop_span(number, end, len(data), "damaged")
                    end = len(data)
                else:
                    self._tear(number, end, written_end(data))
                break
            holes.append((end, at))
        # Only after the whole scan is `_synced` final: a later WRITTEN record proves that a hole had been
        # synced.
        for start, stop in holes:
            proven = inventory.drop_span(
                number,
                start,
                stop,
                "damaged; skipped to the next valid record",
                proven=length != 0 or start < self._synced,
            )
            self._judge_contents(start, stop, proven)
        if length and len(data) < length:
            inventory.drop_span(number, len(data), length, "shorter than it was when it was sealed")
        return end

    def _judge_contents(self, start: int, stop: int, proven: bool) -> None:
        """Decide on messages whose shared content lies in a damaged span. If the span may never have been
        synced they are dropped with it, like all other messages in it. Otherwise they stay, recorded as
        damaged."""
        for offset, queue_id, sequence, position in self._without_content:
            store = self._queues.get(queue_id)
            if start <= offset < stop and store is not None and store.table.get(sequence) == position:
                if proven:
                    self._report.damaged_messages.append((queue_id, sequence))
                else:
                    store.table.wipe(sequence, 1)

    def _tear(self, number: int, start: int, end: int) -> None:
        """Report a torn tail."""
        path = self._segments.path(number)
        self._report.dropped.append(Dropped(path, start, end - start, "torn by a crash", damage=False))

    def _replay(self, segment: Segment, data: bytes, at: int) -> int:
        """Replay valid records from `at` on. Return the offset of the first invalid one."""
        while at + journal_records.START.size <= len(data):
            if data.startswith(DURABLE_MESSAGE, at + journal_records.PREFIX_BYTES):
                after = self._replay_run(segment, data, at)
            else:
                after = self._replay_other(segment, data, at)
            if after == at:
                break
            at = after
        return at

    def _replay_run(self, segment: Segment, data: bytes, at: int) -> int:
        """Replay consecutive durable messages of one queue (hot loop). Return the offset where the run
        ends."""
        whole_of, body_size = WHOLE_HEAD.unpack_from, journal_records.BODY_SIZE.unpack_from
        checksum, salt, base, last = segment.checksum, segment.salt, segment.base, len(data) - WHOLE_HEAD.size
        prefix_bytes, body_size_at = (
            journal_records.PREFIX_BYTES,
            WHOLE_HEAD.size + journal_records.BODY_SIZE_AT,
        )
        if at > last:
            return at
        queue_id = whole_of(data, at)[6]
        table = None
        number, count, low, high = -1, 0, 1 << 64, 0
        while at <= last:
            length, check, kind, flags, _, publish_length, owner, sequence, _, _ = whole_of(data, at)
            if owner != queue_id or flags != 1 or kind != 0xE7:
                break
            body = data[at + prefix_bytes : at + prefix_bytes + length]
            if len(body) != length or checksum(salt, body) != check:
                break
            if sequence >> CHUNK_BITS != number:
                if table is None:
                    table = self._queue(queue_id).table
                number = sequence >> CHUNK_BITS
                chunk, sizes = table.chunk(number)
            chunk[sequence & MASK] = base + at
            sizes[sequence & MASK] = body_size(data, at + body_size_at + publish_length)[0]
            if sequence > high:
                high = sequence
            if sequence < low:
                low = sequence
            at += prefix_bytes + length
            count += 1
        if count:
            self._note_stored(segment, queue_id, low, high, count)
        return at

    def _replay_message(self, segment: Segment, data: bytes, at: int, body: bytes) -> None:
        """Replay a message that `_replay_run` does not handle: paged, of format 1, or with a shared
        content."""
        head = journal_records.message_head(body)
        if not head.flags & journal_records.DURABLE:
            segment.total += 1
            return
        if head.flags & journal_records.SHARED:
            offset, size = journal_records.REFERENCE.unpack_from(body, head.content_at)
            if offset != self._owner:
                owner = valid_body(segment.checksum, segment.salt, data, offset)
                self._owner = offset if owner is not None and owner[0] in journal_records.MESSAGES else -1
            if self._owner < 0:
                self._without_content.append((offset, head.queue_id, head.sequence, segment.base + at))
        else:
            size = journal_records.BODY_SIZE.unpack_from(
                body, head.content_at + journal_records.BODY_SIZE_AT
            )[0]
        chunk, sizes = self._queue(head.queue_id).table.chunk(head.sequence >> CHUNK_BITS)
        chunk[head.sequence & MASK] = segment.base + at
        sizes[head.sequence & MASK] = size
        self._report.records -= 1  # the caller counts this record, as it does with all other kinds
        self._note_stored(segment, head.queue_id, head.sequence, head.sequence, 1)

    def _note_stored(self, segment: Segment, queue_id: int, low: int, high: int, count: int) -> None:
        self._report.records += count
        segment.total += count
        widen(segment.stored, queue_id, low, high)
        self._note_used(queue_id, high, segment.number)

    def _note_used(self, queue_id: int, sequence: int, segment_number: int) -> None:
        store = self._queue(queue_id)
        if sequence >= store.next_sequence:
            store.next_sequence = sequence + 1
            store.next_segment = segment_number

    def _queue(self, queue_id: int) -> JournalQueue:
        store = self._queues.get(queue_id)
        if store is None:
            store = self._queues[queue_id] = self._make_queue(queue_id)
        return store

    def _replay_other(self, segment: Segment, data: bytes, at: int) -> int:
        """Replay one record of any kind. Return the offset after it, or `at` if it is invalid."""
        body = valid_body(segment.checksum, segment.salt, data, at)
        if body is None:
            return at
        kind = body[0]
        if kind in journal_records.MESSAGES:
            self._replay_message(segment, data, at, body)
        elif kind == journal_records.ACK:
            queue_id = journal_records.QUEUE_HEAD.unpack_from(body)[1]
            table = self._queue(queue_id).table
            for first, count in journal_records.RANGE.iter_unpack(body[journal_records.QUEUE_HEAD.size :]):
                table.wipe(first, count)
                widen(segment.acknowledged, queue_id, first, first + count - 1)
                self._note_used(queue_id, first + count - 1, segment.number)
        elif kind == journal_records.ERASED:
            queue_id = journal_records.QUEUE_HEAD.unpack(body)[1]
            self._queues.pop(queue_id, None)
            widen(segment.acknowledged, queue_id, *EVERY_SEQUENCE)
        elif kind == journal_records.DELIVERED:
            _, queue_id, sequence = journal_records.QUEUE_SEQUENCE.unpack(body)
            store = self._queue(queue_id)
            store.delivered_up_to, store.delivered_segment = sequence, segment.number
        elif kind == journal_records.NEXT:
            _, queue_id, sequence = journal_records.QUEUE_SEQUENCE.unpack(body)
            self._note_used(queue_id, sequence - 1, segment.number)
        elif kind == journal_records.WRITTEN:
            self._synced = max(self._synced, journal_records.WRITTEN_BODY.unpack(body)[1])
        self._report.records += 1
        return at + journal_records.PREFIX_BYTES + len(body)
