"""Journal of a node: the interface of storage for the broker.

    journal = Journal(disk, directory, make_envelope)
    report = journal.open()             what was found, what was dropped and why
    journal.forget_unknown(ids)         erases queues that the metadata no longer has
    store = journal.queue(7)            a QueueStore with its recovered messages
    …
    journal.flush(sync=journal.needs_sync)    once a turn: one write, at most one fsync
    journal.housekeeping(budget)              regularly: frees and compacts segments
    journal.close()                           the next open need not scan

After any JournalFailed every call raises it again: the node must stop. Record formats and their order are
in `journal_records.py`; what survives a crash, and why, in `recovery.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from mirrormq.clock import Clock
from mirrormq.storage import journal_records, shutdown_index
from mirrormq.storage.column_reader import ColumnReader
from mirrormq.storage.damage import DamagedRecords
from mirrormq.storage.disk import Disk
from mirrormq.storage.inventory import SegmentInventory
from mirrormq.storage.journal_limits import DEFAULT_LIMITS, PRODUCERS_ID, JournalLimits
from mirrormq.storage.journal_writer import JournalWriter
from mirrormq.storage.manifest import Manifest
from mirrormq.storage.message_reader import MakeEnvelope, MessageReader
from mirrormq.storage.producer_ids import ProducerIds
from mirrormq.storage.queue_store import EVERY_SEQUENCE, JournalQueue
from mirrormq.storage.recovery import Recovery
from mirrormq.storage.recovery_report import RecoveryReport
from mirrormq.storage.scrubbing import Scrubber
from mirrormq.storage.segment_compaction import SegmentCompactor
from mirrormq.storage.segments import Segment, Segments, widen


class Journal:
    """Append-only log that all queues of a node share."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        make_envelope: MakeEnvelope,
        *,
        segment_bytes: int | None = None,
        limits: JournalLimits = DEFAULT_LIMITS,
    ) -> None:
        self.limits = limits
        self._disk = disk
        self._directory = directory
        self._index_exists = False
        self._manifest = Manifest(disk, directory, limits.manifest_entries_max)
        self.segments = Segments(disk, directory, self._manifest)
        self.writer = JournalWriter(
            self.segments, segment_bytes or limits.segment_bytes, self.remove_index, limits
        )
        self.report = RecoveryReport()
        """Report of `open`."""
        self.queues: dict[int, JournalQueue] = {}
        self.damage = DamagedRecords(self.queues)
        """Stored messages whose records are damaged."""
        self.loader = MessageReader(self.writer, self.segments, make_envelope, self.damage)
        self.gatherer = ColumnReader(self.loader, self.writer, self.segments)
        self.touched: dict[int, JournalQueue] = {}
        """Queues with records to write at the next flush."""
        self._housekeeper = SegmentCompactor(self)
        self.scrubber = Scrubber(self)
        self.producer_ids = ProducerIds(self)
        """Highest publish ids of producers, per queue."""

    def open(self) -> RecoveryReport:
        """Rebuild everything from disk. Call once, before anything else."""
        self._disk.make_directory(self._directory)
        report = self.report = RecoveryReport()
        inventory = SegmentInventory(self._disk, self._directory, self.segments, self._manifest, report)
        self._recover(report, inventory)
        inventory.finish()
        report.count(self.segments, self.queues)
        for queue_id, sequence in report.damaged_messages:
            self.damage.note(queue_id, [sequence])
        self.producer_ids.recover()
        return report

    def _recover(self, report: RecoveryReport, inventory: SegmentInventory) -> None:
        self._index_exists = shutdown_index.exists(self._disk, self._directory)
        if self._index_exists:
            report.index_ignored = shutdown_index.load(self._disk, self._directory, self, inventory)
            if report.index_ignored is None:
                report.from_index = True
                return
            self.remove_index()
        Recovery(self._disk, self.segments, self._make_queue, report, inventory).run(self.queues)

    @property
    def clock(self) -> Clock:
        """Clock for the ingestion time of appended messages; set once per turn."""
        return self.writer.clock

    @clock.setter
    def clock(self, clock: Clock) -> None:
        self.writer.clock = clock

    @property
    def identity(self) -> str:
        """Identity of the journal, 32 hexadecimal digits."""
        return self._manifest.identity.hex()

    @property
    def generation(self) -> int:
        """Number of this opening of the journal."""
        return self._manifest.generation

    def highest_sequence(self, queue_id: int) -> int:
        """Return the highest sequence of a queue that a segment stores or acknowledges; 0 if there is
        none. Sequences that were only reserved do not count."""
        highest = 0
        for segment in self.segments.by_number.values():
            for intervals in (segment.stored, segment.acknowledged):
                interval = intervals.get(queue_id)
                if interval is not None and interval != EVERY_SEQUENCE:
                    highest = max(highest, interval[1])
        return highest

    def clear_damage(self) -> None:
        """Record durably that the node has handled the damage that `open` reported."""
        self.writer.check()
        try:
            self._manifest.clear_damage()
        except OSError as error:
            raise self.writer.fail(error) from error

    def _make_queue(self, queue_id: int) -> JournalQueue:
        return JournalQueue(self, queue_id)

    def forget_unknown(self, known_ids: Collection[int]) -> list[int]:
        """Erase recovered queues whose ids are not in `known_ids`, and return them. Reserved ids stay."""
        known = set(known_ids)
        unknown = sorted(queue_id for queue_id in set(self.queues) - known if queue_id < PRODUCERS_ID)
        for queue_id in unknown:
            self.queues[queue_id].erase()
        self.producer_ids.forget_unknown(known)
        return unknown

    def queue(self, queue_id: int) -> JournalQueue:
        """Return a queue's part of the journal, new or recovered. Ids are 1 … 2³² - 1."""
        store = self.queues.get(queue_id)
        if store is None:
            store = self.queues[queue_id] = JournalQueue(self, queue_id)
        return store

    @property
    def dirty(self) -> bool:
        """Whether a flush has records to write."""
        return self.writer.buffered or bool(self.touched)

    @property
    def needs_sync(self) -> bool:
        """Whether durable messages were appended since the last sync."""
        return self.writer.needs_sync

    def want_sync(self) -> None:
        """Request a sync at the next flush, although no durable message was appended."""
        self.writer.needs_sync = True

    def place(self, body: bytes, queue: JournalQueue, sequence: int, durable: bool, size: int) -> int:
        """Append a MESSAGE body, point its queue's table at it, and return its position."""
        queue.check()
        position = self.writer.append(body)
        segment = self.segments.by_number[position >> 32]
        segment.total += 1
        segment.live += 1
        queue.point([sequence], [position], [size], durable)
        if durable:
            widen(segment.stored, queue.queue_id, sequence, sequence)
            self.writer.needs_sync = True
        return position

    def flush(self, sync: bool) -> None:
        """Write everything since the last flush with one call. With `sync` it survives a crash."""
        self.writer.check()
        self.write_pending()
        if sync:
            self.writer.sync()
        else:
            self.writer.drain()

    def write_pending(self) -> None:
        """Buffer the records of acknowledgements and delivery marks that the queues have collected."""
        self.producer_ids.write_pending()
        touched, self.touched = self.touched, {}
        for store in touched.values():
            store.write_pending()

    def housekeeping(self, budget_bytes: int) -> int:
        """Free dead segments and compact sparse ones, reading at most about `budget_bytes`. Return the
        bytes read or freed; 0 if there was nothing to do."""
        self.writer.check()
        return self._housekeeper.step(budget_bytes)

    def carry_forward(self, segment: Segment) -> None:
        """Rewrite at the tail what replay would lose without a segment, except its messages."""
        self.write_pending()
        self._housekeeper.carry_forward(segment)

    def close(self) -> None:
        """Flush, seal, and leave an index so that the next open need not scan."""
        self.flush(sync=True)
        self.writer.seal()
        try:
            self._manifest.close()
        except OSError as error:
            raise self.writer.fail(error) from error
        if not self._index_exists:
            with suppress(OSError):  # the index only saves time; without it the next open scans
                shutdown_index.save(self._disk, self._directory, self)
        self.segments.close()
        self.writer.failure = "the journal is closed"

    def remove_index(self) -> None:
        """Remove the index of the last clean shutdown before it becomes wrong."""
        if self._index_exists:
            shutdown_index.remove(self._disk, self._directory)
            self._index_exists = False

    def drop_queue(self, store: JournalQueue) -> None:
        """Remove an erased queue from the journal's tables."""
        self.queues.pop(store.queue_id, None)
        self.producer_ids.forget(store.queue_id)
        self.touched.pop(store.queue_id, None)

    def write_erased(self, queue_id: int) -> None:
        """Append an ERASED record."""
        position = self.writer.append(journal_records.QUEUE_HEAD.pack(journal_records.ERASED, queue_id))
        widen(self.segments.by_number[position >> 32].acknowledged, queue_id, *EVERY_SEQUENCE)
