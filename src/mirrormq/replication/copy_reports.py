"""Reports of this node's journal and of its durable copies, for the comparison after a full stop.

The journal is reported once per incarnation. The copy of a mirrored queue is reported while that queue is
down, if this node is a ring member or a formerly synchronised one. The coordinator promotes no node before
the members have reported (`replication.promotion`). Reports are collected and written once a turn, in
commands of a bounded size.
"""

from __future__ import annotations

from mirrormq.events.journal_log import log_known_faults
from mirrormq.metadata import commands, records
from mirrormq.metadata.copy_records import CopyReport
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.replication.replication_host import ReportHost

REPORTS_PER_COMMAND = 2000
"""Copies in one command: about 100 kB, a third of what the metadata log sends in one message."""


class CopyReports:
    """Pending reports of one node."""

    def __init__(self, broker: ReportHost) -> None:
        self._broker = broker
        self._me = broker.settings.name
        self._incarnation = broker.incarnation
        self._journal_reported = self._me not in broker.metadata.state.nodes
        self._queues: dict[int, None] = {}

    @property
    def pending(self) -> bool:
        """Whether `flush` has something to write."""
        return bool(self._queues) or not self._journal_reported

    def add(self, record: records.Queue) -> None:
        """Report the copy of a queue that is down, if this incarnation has not done so."""
        if record.has_copy(self._me) and not any(
            copy.node == self._me and copy.incarnation == self._incarnation for copy in record.copies
        ):
            self._queues[record.queue_id] = None

    def flush(self) -> None:
        """Write the reports. The journal's comes first: it decides whether the copies are trusted."""
        metadata, journal = self._broker.metadata, self._broker.journal
        if not self._journal_reported:
            self._journal_reported = True
            log_known_faults(self._broker)
            report = journal.report
            command = commands.ReportJournal(
                self._me,
                self._incarnation,
                journal.identity,
                journal.generation,
                report.damaged,
                report.damage_proven,
            )
            self._broker.write(command, INTERNAL_USER, self._journal_known)
        queue_ids, self._queues = list(self._queues), {}
        for at in range(0, len(queue_ids), REPORTS_PER_COMMAND):
            batch = queue_ids[at : at + REPORTS_PER_COMMAND]
            metadata.write(commands.ReportCopies([(queue_id, self._report(queue_id)) for queue_id in batch]))

    def _journal_known(self) -> None:
        """Clear the damage mark when the metadata holds the report: the next start must not repeat it."""
        journal = self._broker.journal
        if journal.report.damaged:
            journal.clear_damage()

    def _report(self, queue_id: int) -> CopyReport:
        journal = self._broker.journal
        store = journal.queues.get(queue_id)
        if store is None:
            return CopyReport(self._me, self._incarnation, 0, 0, 0)
        highest = journal.highest_sequence(queue_id)
        return CopyReport(self._me, self._incarnation, highest, store.live_count, store.delivered_up_to)
