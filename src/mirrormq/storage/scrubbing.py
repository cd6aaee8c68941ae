"""Scrubbing: reads and verifies every record of the sealed segments, in bounded steps.

A pass walks the segments that were sealed when it began. It records damaged messages in `Journal.damage`,
from where the broker fetches a good copy from a mirror. Damage to other records matters only to the next
recovery: an acknowledgement that replay does not see brings its messages back. The scrubber therefore lets
the journal write at its tail what the segment acknowledges, as before a segment is freed, and has the
segment compacted. When its damaged messages are rewritten too, nothing live is left in it and it is
removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrormq.storage import journal_records
from mirrormq.storage.journal_limits import SCRUB_READ_BYTES_MIN
from mirrormq.storage.record_search import find_record, valid_body
from mirrormq.storage.segments import Segment

if TYPE_CHECKING:
    from mirrormq.storage.journal import Journal


@dataclass(slots=True)
class ScrubProgress:
    """State of scrubbing; the totals only grow."""

    running: bool = False
    segments_done: int = 0
    segments_total: int = 0
    """Segments of the present pass, or of the last one."""
    bytes_done: int = 0
    bytes_total: int = 0
    damaged_spans: int = 0
    """Damaged spans found in the present pass, or in the last one."""
    passes_total: int = 0
    read_bytes_total: int = 0
    damaged_spans_total: int = 0


class Scrubber:
    """Verifier of the sealed segments of one journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers: list[int] = []
        self._offset = 0
        self._bad: list[tuple[int, int]] = []
        """Damaged spans of the segment that is being read."""
        self.progress = ScrubProgress()

    def start(self) -> None:
        """Begin a pass, unless one is running."""
        progress, segments = self.progress, self._journal.segments
        if progress.running:
            return
        sealed = [item for item in segments.by_number.values() if item is not self._journal.writer.tail]
        self._numbers = [item.number for item in reversed(sealed)]
        self._offset, self._bad = 0, []
        progress.running = True
        progress.segments_done, progress.segments_total = 0, len(sealed)
        progress.bytes_done, progress.bytes_total = 0, sum(item.used_bytes - item.data_at for item in sealed)
        progress.damaged_spans = 0

    def step(self, budget_bytes: int) -> int:
        """Verify about `budget_bytes`, more for a single record that is larger. Return the bytes read; 0
        if no pass is running."""
        journal, progress = self._journal, self.progress
        journal.writer.check()
        done = 0
        while progress.running and done < budget_bytes:
            if not self._numbers:
                progress.running = False
                progress.passes_total += 1
                break
            segment = journal.segments.by_number.get(self._numbers[-1])
            if segment is None:
                self._next_segment(None)
                continue
            self._offset = self._offset or segment.data_at
            read = self._verify(segment, max(budget_bytes - done, SCRUB_READ_BYTES_MIN))
            done += read
            progress.bytes_done += read
            progress.read_bytes_total += read
            self._offset += read
            if self._offset >= segment.used_bytes:
                self._next_segment(segment)
        return done

    def _next_segment(self, segment: Segment | None) -> None:
        if segment is not None and self._bad:
            self._condemn(segment)
        self._numbers.pop()
        self._offset, self._bad = 0, []
        self.progress.segments_done += 1

    def _verify(self, segment: Segment, size: int) -> int:
        """Verify the next records. Return the length of the bytes that were verified or found damaged."""
        end = segment.used_bytes
        data = self._read(segment, min(size, end - self._offset))
        at = self._verified(segment, data)
        if at:
            return at
        length = journal_records.PREFIX.unpack(data[:8])[0] + 8 if len(data) >= 8 else 0
        # The record may only be longer than the budget: read it whole before it counts as damaged.
        if len(data) < length <= end - self._offset:
            data = self._read(segment, length)
            at = self._verified(segment, data)
            if at:
                return at
        rest = self._read(segment, end - self._offset)
        next_offset = find_record(segment.checksum, segment.salt, rest, 0) if rest else -1
        stop = self._offset + next_offset if next_offset > 0 else end
        self._damaged(segment, self._offset, stop)
        return stop - self._offset

    def _verified(self, segment: Segment, data: bytes) -> int:
        """Return the length of the complete, valid records at the beginning of `data`."""
        at = 0
        while (body := valid_body(segment.checksum, segment.salt, data, at)) is not None:
            if body[0] == journal_records.MESSAGE and body[1] & journal_records.SHARED and self._bad:
                self._check_content(body)
            at += len(body) + journal_records.PREFIX_BYTES
        return at

    def _check_content(self, body: bytes) -> None:
        """Record a message whose content is in another, damaged record."""
        head = journal_records.message_head(body)
        owner, _ = journal_records.REFERENCE.unpack_from(body, head.content_at)
        if any(start <= owner < stop for start, stop in self._bad):
            self._journal.damage.note(head.queue_id, [head.sequence])

    def _read(self, segment: Segment, size: int) -> bytes:
        try:
            return self._journal.segments.file(segment.number).read(size, self._offset)
        except OSError:
            return b""

    def _damaged(self, segment: Segment, start: int, stop: int) -> None:
        """Record every live message whose record begins in a damaged span."""
        self._bad.append((start, stop))
        self.progress.damaged_spans += 1
        self.progress.damaged_spans_total += 1
        first, last = segment.base + start, segment.base + stop
        for store in self._journal.queues.values():
            for table in (store.table, store.paged):
                self._journal.damage.note(store.queue_id, table.stored_in(first, last))

    def _condemn(self, segment: Segment) -> None:
        """Make the segment superfluous: its acknowledgements go to the tail now, its live messages by
        compaction."""
        segment.condemned = True
        self._journal.carry_forward(segment)
