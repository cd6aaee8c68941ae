"""A node's part in G7: it marks where its queues part from the others', and sets aside what only it has.

This is where marks (`apart`), the store (`orphans`) and the node's journal meet. What the journal does not
have, because it is in memory only, whoever holds the live queues says (`QueueContents`); a node that has just
started has nothing but its journal (`StoredContents`).

Setting aside is done in an order that no crash can turn into a loss: first everything is in the store and
synced, queue by queue; then it goes from the queues; and only then may the metadata be replaced. After a
crash in between it is done again, and what comes twice says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from mirrormq.cluster.divergence import DivergenceMark, DivergenceMarks, SharedPrefix, share
from mirrormq.cluster.orphan_store import BATCH_MESSAGES, OrphanStore
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.message import Message
from mirrormq.storage.disk import Disk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal


class QueueContents(Protocol):
    """The live queues of a node."""

    def marks(self) -> dict[int, DivergenceMark]:
        """Where each queue that this node holds would part from the others' copies now."""

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        """The messages of a queue that the journal does not have, with consumers or not."""


class StoredContents:
    """What a node has that does not run."""

    def marks(self) -> dict[int, DivergenceMark]:
        return {}

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        return ()


class OrphanLoss(NamedTuple):
    """What a node does when its side has lost."""

    mine: MetadataState
    """The losing side's metadata."""
    winner: MetadataState
    companions: Collection[str]
    """The nodes of the losing side that are in touch."""
    at_ms: int


class OrphanCollector:
    """One node's."""

    def __init__(self, me: str, disk: Disk, directory: str, journal: Journal) -> None:
        self._me = me
        self._journal = journal
        self._logs = EntryLog(disk, f"{directory}/apart"), EntryLog(disk, f"{directory}/orphans")
        self.apart = DivergenceMarks(self._logs[0])
        self.orphans = OrphanStore(journal, self._logs[1])

    def open(self) -> None:
        """Read what there is; the journal is open."""
        self.apart.open()
        self.orphans.open()

    def close(self) -> None:
        """Give the files back."""
        for log in self._logs:
            log.close()

    def partition_started(self, holdings: QueueContents, state: MetadataState) -> None:
        """Somebody is missing who may go on without this node."""
        if not self.apart.begun:
            self.apart.begin(state.next_queue_id, holdings.marks())

    def partition_ended(self) -> None:
        """Everybody is here, and of one mind."""
        self.apart.end()

    def set_aside(self, holdings: QueueContents, loss: OrphanLoss) -> int:
        """Keep what only this side has; says how many messages. The queues are as they were."""
        kept = 0
        for queue in loss.mine.queues.values():
            if self._share(queue, loss) is SharedPrefix.SET_ASIDE:
                messages = self._messages(holdings, queue, self._first(queue, loss))
                created_in_partition = self._created_in_partition(queue, loss)
                kept += self.orphans.set_aside(queue, self._me, loss.at_ms, created_in_partition, messages)
        return kept

    def let_go(self, loss: OrphanLoss) -> None:
        """Take from the journal what the winner's copies of the queues do not have: their numbers may mean
        other messages there. Nobody uses the queues any more."""
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
        """Was this queue declared on this side only? It may have been so before anybody was missed."""
        number, winner = queue.queue_id, loss.winner
        unknown = number >= winner.next_queue_id or winner.queue_keys.get(number, queue.key) != queue.key
        return unknown or self.apart.created_in_partition(number)

    def _first(self, queue: Queue, loss: OrphanLoss) -> int:
        if self._created_in_partition(queue, loss):
            return 0
        return self.apart.first(queue.queue_id, loss.winner.queues.get(queue.key))

    def _messages(self, holdings: QueueContents, queue: Queue, first: int) -> Iterator[Message]:
        """Everything from a sequence on, oldest first."""
        store = self._journal.queue(queue.queue_id)
        stored = [number for number in store.held() if number >= first]
        known = set(stored)
        memory = {
            message.sequence: message
            for message in holdings.in_memory(queue)
            if message.sequence >= first and message.sequence not in known
        }
        numbers = sorted([*stored, *memory])
        for at in range(0, len(numbers), BATCH_MESSAGES):
            some = numbers[at : at + BATCH_MESSAGES]
            loaded = {message.sequence: message for message in store.load([n for n in some if n in known])}
            yield from (loaded.get(number) or memory[number] for number in some)
