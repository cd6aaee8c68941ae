"""Segment compaction: removes dead segments, copies sparse ones to the tail and removes them.

The order of the steps is essential; `recovery.py` gives the reasons. First write what replay would miss
without the segment (live messages, acknowledgements of older segments, sequences), then sync, then remove,
one segment after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.sequences.spans import Interval, joined
from mirrormq.storage import journal_records
from mirrormq.storage.journal_limits import FREED_PER_STEP
from mirrormq.storage.record_search import find_record, valid_body
from mirrormq.storage.segments import Segment

if TYPE_CHECKING:
    from mirrormq.storage.journal import Journal


class SegmentCompactor:
    """Frees and compacts segments in bounded steps."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._compacting: Segment | None = None
        self._offset = 0
        """Offset up to which the segment in compaction has been copied."""
        self._moved: dict[tuple[int, int, int], int] = {}
        """Large contents that were copied: (segment, offset, new segment) → new offset. Cleared when the
        compaction of the segment ends, so it is bounded by the contents of one segment."""

    def step(self, budget_bytes: int) -> int:
        """Perform one bounded step. Return the bytes read or freed; 0 if there was nothing to do."""
        freed = self._free_dead()
        if freed:
            return freed
        if self._compacting is None:
            self._compacting = self._choose_sparse()
            if self._compacting is None:
                return 0
            self._offset = self._compacting.data_at
            self._moved.clear()
        return self._compact(self._compacting, budget_bytes)

    def _free_dead(self) -> int:
        """Remove sealed segments without live messages, at most FREED_PER_STEP; the newest segment stays."""
        journal = self._journal
        sealed = [
            item
            for item in journal.segments.by_number.values()
            if item.number != journal.segments.last_number
        ]
        dead = [segment for segment in sealed if not segment.live][:FREED_PER_STEP]
        if not dead:
            return 0
        journal.write_pending()
        for segment in dead:
            self.carry_forward(segment)
        # Invariant 5 of recovery.py: the carried records must be durable before a file is removed.
        journal.writer.sync()
        freed = 0
        try:
            journal.remove_index()
            for segment in dead:
                freed += segment.used_bytes
                journal.segments.remove(segment.number)
        except OSError as error:
            raise journal.writer.fail(error) from error
        if self._compacting in dead:
            self._compacting = None
        return freed

    def carry_forward(self, segment: Segment) -> None:
        """Write at the tail what replay would lose without this segment."""
        journal = self._journal
        older = [other for other in journal.segments.by_number.values() if other.number < segment.number]
        for queue_id, (low, high) in segment.acknowledged.items():
            stored = [other.stored[queue_id] for other in older if queue_id in other.stored]
            overlaps = [Interval(max(low, first), min(high, last)) for first, last in stored]
            overlaps = [each for each in overlaps if each.first <= each.last]
            if not overlaps:
                continue
            store = journal.queues.get(queue_id)
            if store is None or not store.known:
                # The queue is gone: one ERASED record replaces all its acknowledgements.
                journal.write_erased(queue_id)
                continue
            missing = [span for first, last in overlaps for span in store.table.missing(first, last)]
            if missing:
                store.write_acknowledgements(joined(missing))
        for store in journal.queues.values():
            if store.next_segment == segment.number:
                store.write_next()
            if store.delivered_segment == segment.number:
                if store.table.count:
                    store.write_delivered()
                else:
                    # No durable message is left that the mark could cover.
                    store.delivered_up_to = store.delivered_segment = 0

    def _choose_sparse(self) -> Segment | None:
        """Return the emptiest sealed segment below the ratio that no consumer is draining at present. A
        segment that a restart cut short counts as empty after its end, so that small files do not pile up."""
        best, best_ratio = None, self._journal.limits.sparse_ratio
        newest = self._journal.segments.last_number
        for segment in self._journal.segments.by_number.values():
            settled, segment.settled_live = segment.settled_live == segment.live, segment.live
            if segment.condemned and not segment.damaged and segment.number != newest:
                return segment
            if not settled or segment.damaged or segment.number == newest or not segment.total:
                continue
            fill = min(1.0, segment.used_bytes / self._journal.writer.segment_bytes)
            ratio = fill * segment.live / segment.total
            if ratio < best_ratio:
                best, best_ratio = segment, ratio
        return best

    def _compact(self, segment: Segment, budget_bytes: int) -> int:
        """Copy the live messages of the next part of the segment to the tail."""
        self._journal.write_pending()
        done = self._copy_window(segment, min(budget_bytes, segment.used_bytes - self._offset))
        if done == 0:
            prefix = self._read(segment, journal_records.PREFIX_BYTES).ljust(
                journal_records.PREFIX_BYTES, b"\0"
            )
            length = int(journal_records.PREFIX.unpack(prefix)[0]) + journal_records.PREFIX_BYTES
            done = self._copy_window(segment, min(length, segment.used_bytes - self._offset))
        if done == 0:
            done = self._skip_damage(segment)
        self._offset += done
        if self._offset >= segment.used_bytes:
            self._compacting = None
            self._moved.clear()
            segment.damaged = segment.live > 0
        return done

    def _copy_window(self, segment: Segment, size: int) -> int:
        """Copy live messages of the next `size` bytes. Return the length of the complete, valid records."""
        data = self._read(segment, size)
        at = 0
        while (body := valid_body(segment.checksum, segment.salt, data, at)) is not None:
            if body[0] in journal_records.MESSAGES:
                self._copy(segment, self._offset + at, body)
            at += len(body) + journal_records.PREFIX_BYTES
        return at

    def _skip_damage(self, segment: Segment) -> int:
        """Return the distance to the next valid record after a damaged one, or to the segment's end."""
        rest = self._read(segment, segment.used_bytes - self._offset)
        at = find_record(segment.checksum, segment.salt, rest, 0)
        return at if at > 0 else segment.used_bytes - self._offset

    def _read(self, segment: Segment, size: int) -> bytes:
        try:
            return self._journal.segments.file(segment.number).read(size, self._offset)
        except OSError:
            return b""

    def _copy(self, segment: Segment, offset: int, body: bytes) -> None:
        """Append a message again, in format 2, if its queue's table points at this copy."""
        journal, head = self._journal, journal_records.message_head(body)
        durable = bool(head.flags & journal_records.DURABLE)
        store = journal.queues.get(head.queue_id)
        if store is None:
            return
        if (store.table if durable else store.paged).get(head.sequence) != segment.base + offset:
            return
        if head.flags & journal_records.SHARED:
            owner, size = journal_records.REFERENCE.unpack_from(body, head.content_at)
        else:
            owner, size = (
                offset,
                journal_records.BODY_SIZE.unpack_from(body, head.content_at + journal_records.BODY_SIZE_AT)[
                    0
                ],
            )
        tail = journal.writer.reserve(len(body))
        moved = self._moved.get((segment.number, owner, tail.number))
        if moved is not None:
            body = journal_records.shared_body(head, body[head.publish_at : head.content_at], moved, size)
        else:
            whole = journal.loader.own_content(segment, body)
            if whole is None:
                return  # its content is damaged: message and segment stay
            body = whole
        position = journal.place(body, store, head.sequence, durable, size)
        if moved is None and size >= journal.limits.shared_content_bytes_min:
            self._moved[segment.number, owner, position >> 32] = position & 0xFFFFFFFF
