"""Orphan collector of one node: sets aside the messages that only this node's side of a fork has.

It combines fork indexes (`fork_index`), the orphan store (`orphan_store`) and the node's journal. Messages
in memory that the journal lacks come from the live queues (`QueueContents`). A node that has just started
has only its journal (`StoredContents`).

Partition-loses-nothing (G7): no crash turns the order of steps into a loss. First all orphans are in the
store and synced, queue by queue; then they are removed from the queues; only then may the metadata be
replaced. After a crash in between the steps are repeated, and duplicates are marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mirrormq.cluster.fork_index import (
    NOT_FORKED,
    ForkIndex,
    ForkIndexes,
    LostFork,
    collects,
    first_unshared,
)
from mirrormq.cluster.orphan_store import BATCH_MESSAGES, OrphanStore
from mirrormq.metadata.records import Queue
from mirrormq.queues.message import Message
from mirrormq.storage.disk import Disk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal


class QueueContents(Protocol):
    """Contents of a node's live queues."""

    def fork_indexes(self) -> dict[int, ForkIndex]:
        """Return the fork index of each queue that this node holds, as of now."""

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        """Return the messages of a queue that the journal lacks, delivered or not."""


class StoredContents:
    """Contents of a node whose application does not run."""

    def fork_indexes(self) -> dict[int, ForkIndex]:
        return {}

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        return ()


class OrphanCollector:
    def __init__(
        self, me: str, disk: Disk, directory: str, journal: Journal, batch_messages: int = BATCH_MESSAGES
    ) -> None:
        self._batch_messages = batch_messages
        self._me = me
        self._journal = journal
        self._logs = EntryLog(disk, f"{directory}/apart"), EntryLog(disk, f"{directory}/orphans")
        self.fork_indexes = ForkIndexes(self._logs[0])
        self.orphans = OrphanStore(journal, self._logs[1], batch_messages)
        self.damaged_count = 0
        """Messages that could not be set aside, because their records are damaged."""

    def open(self) -> None:
        """Read fork indexes and orphans. The journal must be open."""
        self.fork_indexes.open()
        self.orphans.open()

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def partition_started(self, holdings: QueueContents) -> None:
        """Write the fork indexes, because a missing node may continue without this one."""
        if not self.fork_indexes.begun:
            self.fork_indexes.begin(holdings.fork_indexes())

    def partition_ended(self) -> None:
        """Drop the fork indexes."""
        self.fork_indexes.end()

    def set_aside(self, holdings: QueueContents, fork: LostFork) -> int:
        """Copy the messages that only this side has to the store, and return their number. Queues do not
        change."""
        kept = 0
        for queue in self._held(fork):
            first = self._first(queue, fork)
            # One node of the side collects: each further one would republish the same messages.
            if first < NOT_FORKED and collects(self._me, queue, fork):
                messages = self._messages(holdings, queue, first)
                created_in_partition = fork.created_in_partition(queue)
                kept += self.orphans.set_aside(queue, self._me, fork.at_ms, created_in_partition, messages)
        return kept

    def let_go(self, fork: LostFork) -> None:
        """Remove the orphans from the journal, after the application has stopped. The winner's copies may use
        their sequences for other messages."""
        for queue in fork.mine.queues.values():
            if queue.queue_id in self._journal.queues:
                store, first = self._journal.queue(queue.queue_id), self._first(queue, fork)
                if not first:
                    store.erase()
                elif first < NOT_FORKED:
                    store.forget([number for number in store.held() if number >= first])
        self._journal.flush(sync=True)
        self.fork_indexes.drop_after(fork.common)

    def _held(self, fork: LostFork) -> list[Queue]:
        """Return the queues that this node may hold messages of."""
        # A node that has left the ring may still have its copy on disk, and it may be the last one.
        return [
            queue
            for queue in fork.mine.queues.values()
            if self._me in queue.ring.members or queue.queue_id in self._journal.queues
        ]

    def _first(self, queue: Queue, fork: LostFork) -> int:
        return first_unshared(self._me, queue, fork, self.fork_indexes.find(queue.queue_id))

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
        for start in range(0, len(numbers), self._batch_messages):
            batch = numbers[start : start + self._batch_messages]
            wanted = [number for number in batch if number in known]
            found = {message.sequence: message for message in store.load_intact(wanted)}
            self.damaged_count += len(wanted) - len(found)
            found |= {number: memory[number] for number in batch if number in memory}
            yield from (found[number] for number in batch if number in found)
