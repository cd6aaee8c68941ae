"""Orphan collector of one node: sets aside the messages that only this node's side of a fork has.

It combines divergence marks (`divergence`), the orphan store (`orphan_store`) and the node's journal.
Messages in memory that the journal lacks come from the live queues (`QueueContents`). A node that has just
started has only its journal (`StoredContents`).

Partition-loses-nothing (G7): no crash turns the order of steps into a loss. First all orphans are in the
store and synced, queue by queue; then they are removed from the queues; only then may the metadata be
replaced. After a crash in between the steps are repeated, and duplicates are marked as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from mirrormq.cluster.divergence import (
    DivergenceMark,
    DivergenceMarks,
    SharedPrefix,
    first_after_awaited,
    share,
)
from mirrormq.cluster.orphan_store import BATCH_MESSAGES, OrphanStore
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.message import Message
from mirrormq.storage.disk import Disk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal


class QueueContents(Protocol):
    """Contents of a node's live queues."""

    def marks(self) -> dict[int, DivergenceMark]:
        """Return the divergence mark of each queue that this node holds, as of now."""

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        """Return the messages of a queue that the journal lacks, delivered or not."""


class StoredContents:
    """Contents of a node whose application does not run."""

    def marks(self) -> dict[int, DivergenceMark]:
        return {}

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        return ()


class OrphanLoss(NamedTuple):
    """Description of a lost fork: both sides' metadata and the nodes of the losing side."""

    mine: MetadataState
    """Metadata of the losing side."""
    winner: MetadataState
    companions: Collection[str]
    """Connected nodes of the losing side."""
    at_ms: int


class OrphanCollector:
    def __init__(self, me: str, disk: Disk, directory: str, journal: Journal) -> None:
        self._me = me
        self._journal = journal
        self._logs = EntryLog(disk, f"{directory}/apart"), EntryLog(disk, f"{directory}/orphans")
        self.apart = DivergenceMarks(self._logs[0])
        self.orphans = OrphanStore(journal, self._logs[1])
        self.damaged_count = 0
        """Messages that could not be set aside, because their records are damaged."""

    def open(self) -> None:
        """Read marks and orphans. The journal must be open."""
        self.apart.open()
        self.orphans.open()

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def partition_started(self, holdings: QueueContents, state: MetadataState) -> None:
        """Write divergence marks, because a missing node may continue without this one."""
        if not self.apart.begun:
            self.apart.begin(state.next_queue_id, holdings.marks())

    def partition_ended(self) -> None:
        """Drop the divergence marks."""
        self.apart.end()

    def set_aside(self, holdings: QueueContents, loss: OrphanLoss) -> int:
        """Copy the messages that only this side has to the store, and return their number. Queues do not
        change."""
        kept = 0
        for queue in loss.mine.queues.values():
            if self._share(queue, loss) is SharedPrefix.SET_ASIDE:
                messages = self._messages(holdings, queue, self._first(queue, loss))
                created_in_partition = self._created_in_partition(queue, loss)
                kept += self.orphans.set_aside(queue, self._me, loss.at_ms, created_in_partition, messages)
        return kept

    def let_go(self, loss: OrphanLoss) -> None:
        """Remove the orphans from the journal, after the application has stopped. The winner's copies may use
        their sequences for other messages."""
        for queue in loss.mine.queues.values():
            if queue.queue_id in self._journal.queues and self._share(queue, loss) is not SharedPrefix.KEEP:
                store = self._journal.queue(queue.queue_id)
                first = self._first(queue, loss)
                if not first:
                    store.erase()
                else:
                    store.forget([number for number in store.held() if number >= first])
        self._journal.flush(sync=True)

    def _share(self, queue: Queue, loss: OrphanLoss) -> SharedPrefix:
        if self._me not in queue.ring.members and queue.queue_id not in self._journal.queues:
            return SharedPrefix.DROP
        return share(self._me, queue, {self._me, *loss.companions}, loss.winner)

    def _created_in_partition(self, queue: Queue, loss: OrphanLoss) -> bool:
        """Return whether a queue was declared on this side only, perhaps before any node was found
        missing."""
        number, winner = queue.queue_id, loss.winner
        unknown = number >= winner.next_queue_id or winner.queue_keys.get(number, queue.key) != queue.key
        return unknown or self.apart.created_in_partition(number)

    def _first(self, queue: Queue, loss: OrphanLoss) -> int:
        if self._created_in_partition(queue, loss):
            return 0
        theirs = loss.winner.queues.get(queue.key)
        return first_after_awaited(self._me, queue, theirs) or self.apart.first(queue.queue_id, theirs)

    def _messages(self, holdings: QueueContents, queue: Queue, first: int) -> Iterator[Message]:
        """Yield the messages of a queue from a sequence on, oldest first."""
        store = self._journal.queue(queue.queue_id)
        stored = [number for number in store.held() if number >= first]
        known = set(stored)
        memory = {
            message.sequence: message
            for message in holdings.in_memory(queue)
            if message.sequence >= first and message.sequence not in known
        }
        numbers = sorted([*stored, *memory])
        for start in range(0, len(numbers), BATCH_MESSAGES):
            batch = numbers[start : start + BATCH_MESSAGES]
            wanted = [number for number in batch if number in known]
            found = {message.sequence: message for message in store.load_intact(wanted)}
            self.damaged_count += len(wanted) - len(found)
            found |= {number: memory[number] for number in batch if number in memory}
            yield from (found[number] for number in batch if number in found)
