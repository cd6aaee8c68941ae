"""Damaged messages: stored messages with damaged records, until they are rewritten or gone.

Loading, gathering and scrubbing report here. The broker can get a good copy from a mirror; it reads
`pending` and calls `JournalQueue.rewrite`. A message that cannot be repaired stays: it keeps its sequence
and its position, it is counted, and it is never delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mirrormq.storage.journal_limits import DAMAGED_MESSAGES_MAX

if TYPE_CHECKING:
    from mirrormq.storage.queue_store import JournalQueue


class DamagedRecords:
    """Damaged messages of one journal."""

    def __init__(self, queues: dict[int, JournalQueue]) -> None:
        self._queues = queues
        self._found: dict[tuple[int, int], int] = {}
        """(queue, sequence) → position of the damaged record."""
        self.unseen = False
        """True after a message was recorded, until the broker reads `pending`."""
        self.unrepairable: set[tuple[int, int]] = set()
        """Messages, by queue and sequence, of which no node with a copy of the queue has a good one."""
        self.found_total = 0
        self.repaired_total = 0

    def note(self, queue_id: int, sequences: Iterable[int]) -> None:
        """Record damaged messages. Beyond DAMAGED_MESSAGES_MAX they are ignored and found again later."""
        store = self._queues.get(queue_id)
        if store is None:
            return
        for sequence in sequences:
            position = store.table.get(sequence) or store.paged.get(sequence)
            if not position or self._found.get((queue_id, sequence)) == position:
                continue
            if len(self._found) < DAMAGED_MESSAGES_MAX:
                self._found[queue_id, sequence] = position
                self.found_total += 1
                self.unseen = True

    def repaired(self, queue_id: int, sequence: int) -> None:
        """Remove a message that has a good copy again."""
        if self._found.pop((queue_id, sequence), None) is not None:
            self.repaired_total += 1

    def awaits_repair(self, queue_id: int, sequences: Iterable[int]) -> bool:
        """Return whether another node may have a good copy of one of these damaged messages."""
        return any((queue_id, sequence) not in self.unrepairable for sequence in sequences)

    def pending(self) -> dict[int, list[int]]:
        """Return the damaged messages that are still stored: queue → ascending sequences."""
        pending: dict[int, list[int]] = {}
        for (queue_id, sequence), position in list(self._found.items()):
            store = self._queues.get(queue_id)
            if store is None or position not in (store.table.get(sequence), store.paged.get(sequence)):
                del self._found[queue_id, sequence]  # acknowledged, expired, or rewritten
            else:
                pending.setdefault(queue_id, []).append(sequence)
        return {queue_id: sorted(sequences) for queue_id, sequences in pending.items()}

    @property
    def pending_count(self) -> int:
        """Number of damaged messages that are still stored."""
        return sum(map(len, self.pending().values())) if self._found else 0
