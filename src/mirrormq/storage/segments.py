"""Segment files of a journal: the facts of each segment, and the set of existing ones.

A segment is written once, sealed (synced, cut to its used length) and later removed whole. In memory it
keeps the facts that freeing it requires: the number of its live messages, and for each queue the interval
of sequences it stores durably and the interval its acknowledgements cover.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from mirrormq.sequences.spans import Interval, interval
from mirrormq.storage import journal_records
from mirrormq.storage.disk import Disk, File
from mirrormq.storage.journal_limits import OPEN_SEGMENTS
from mirrormq.storage.manifest import Manifest
from mirrormq.storage.segment_header import FORMAT, SegmentHeader

SUFFIX = ".journal"


def widen(intervals: dict[int, Interval], queue_id: int, low: int, high: int) -> None:
    """Extend a queue's interval to include [low, high]."""
    before = intervals.get(queue_id)
    if before is None:
        intervals[queue_id] = interval(low, high)
    elif low < before[0] or high > before[1]:
        intervals[queue_id] = interval(min(low, before[0]), max(high, before[1]))


class Segment:
    """One file of the journal."""

    __slots__ = (
        "acknowledged",
        "base",
        "checksum",
        "checksum_name",
        "condemned",
        "damaged",
        "format",
        "live",
        "number",
        "salt",
        "settled_live",
        "stored",
        "total",
        "used_bytes",
    )

    def __init__(
        self,
        number: int,
        checksum_name: int,
        checksum: journal_records.Checksum,
        salt: int,
        format_: int = FORMAT,
    ) -> None:
        self.number = number
        self.base = number << 32
        """The position of its first byte."""
        self.format = format_
        self.checksum_name = checksum_name
        self.checksum = checksum
        self.salt = salt
        self.used_bytes = self.data_at
        self.live = 0
        """Number of messages that the queues' tables point at."""
        self.total = 0
        """Number of messages ever written."""
        self.stored: dict[int, Interval] = {}
        """Interval of the sequences of each queue, by queue id."""
        self.acknowledged: dict[int, Interval] = {}
        """Intervals that ACK records cover; an ERASED record covers every sequence."""
        self.damaged = False
        """Compaction could not save all live messages; the segment stays until they are gone."""
        self.condemned = False
        """The scrubber found damage; the segment is compacted as soon as possible."""
        self.settled_live = -1
        """`live` at the last housekeeping step. A segment that is being drained is left alone."""

    @property
    def data_at(self) -> int:
        """Offset of the first record."""
        return SegmentHeader(self.number, self.checksum_name, self.salt, self.format).data_at


class Segments:
    """Segment files of one directory, with a bounded number of open files."""

    def __init__(self, disk: Disk, directory: str, manifest: Manifest) -> None:
        self._disk = disk
        self._directory = directory
        self._manifest = manifest
        self._open: OrderedDict[int, File] = OrderedDict()
        self.by_number: dict[int, Segment] = {}
        """Segments by number, ascending."""
        self.last_number = 0
        """Highest number that is known to have been used here."""

    def path(self, number: int) -> str:
        """Return the path of a segment."""
        return f"{self._directory}/{number:010d}{SUFFIX}"

    def found(self) -> list[int]:
        """Return the numbers of the segment files on disk, ascending."""
        names = [name for name in self._disk.list(self._directory) if name.endswith(SUFFIX)]
        return sorted(int(name.removesuffix(SUFFIX)) for name in names if name.removesuffix(SUFFIX).isdigit())

    def create(self, limit_bytes: int) -> tuple[Segment, File]:
        """Create a preallocated, durable segment with the next number."""
        number = self.last_number + 1
        name = journal_records.PREFERRED_CHECKSUM
        checksum = journal_records.checksum_named(name)
        assert checksum is not None
        segment = Segment(number, name, checksum, self._disk.salt())
        file = self._disk.create(self.path(number))
        file.allocate(limit_bytes)
        identity, generation = self._manifest.identity, self._manifest.generation
        file.write(SegmentHeader(number, name, segment.salt, FORMAT, identity, generation).encode(), 0)
        file.sync()
        self._disk.sync_directory(self._directory)
        # Listed only when durable: recovery reports a listed segment without a file as damage.
        self._manifest.created(number, segment.salt)
        self.last_number = number
        self.by_number[number] = segment
        return segment, file

    def adopt(self, segment: Segment) -> None:
        """Register a segment that recovery found."""
        self.by_number[segment.number] = segment
        # Never reuse a number: a position contains it, and recovery tells an unused one from a removed one.
        self.last_number = max(self.last_number, segment.number)

    def file(self, number: int) -> File:
        """Return the open file of a sealed segment."""
        file = self._open.get(number)
        if file is None:
            while len(self._open) >= OPEN_SEGMENTS:
                self._open.popitem(last=False)[1].close()
            file = self._open[number] = self._disk.open(self.path(number))
        else:
            self._open.move_to_end(number)
        return file

    def seal(self, segment: Segment, file: File) -> None:
        """Sync a segment and cut it to its used length; nothing is written to it afterwards."""
        file.truncate(segment.used_bytes)
        file.sync()
        file.close()
        self._manifest.sealed(segment.number, segment.used_bytes)

    def remove(self, number: int) -> None:
        """Remove the file durably: it cannot come back once this returns."""
        file = self._open.pop(number, None)
        if file is not None:
            file.close()
        # The list first: after a crash in between, recovery completes the removal of an unlisted file. In the
        # other order the missing file would count as damage, and the node's copies as untrusted.
        self._manifest.removed(number)
        self._disk.remove(self.path(number))
        self._disk.sync_directory(self._directory)
        self.by_number.pop(number, None)

    def release(self, positions: Sequence[int]) -> None:
        """Decrement live counters for positions that no table points at any longer. Zeros are skipped."""
        if not positions:
            return
        by_number = self.by_number
        low, high = min(positions), max(positions)
        if low and low >> 32 == high >> 32:
            by_number[low >> 32].live -= len(positions)
            return
        for position in positions:
            if position:
                by_number[position >> 32].live -= 1

    def claim(self, positions: Sequence[int]) -> None:
        """Increment live counters for positions that recovery put into a table. Zeros are skipped."""
        by_number = self.by_number
        for position in positions:
            if position:
                by_number[position >> 32].live += 1

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._open.popitem()[1].close()
