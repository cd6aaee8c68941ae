"""Fork index: the sequence from which the two sides of a fork hold different messages of a queue.

In a mode in which two sides may continue (`partitions`), a node cannot tell at the start of a partition
whether a missing node has failed or is only unreachable. Nor does it know which side will win. As soon as a
member is missing, and before a branch of fewer than a majority commits anything, each node therefore writes
down a fork index for each of its queues: the first sequence that another synchronised member may lack. With
it goes the view in which that was measured, as the index of the metadata log entry that wrote this view. The
fork indexes are dropped when all nodes are back and share one history.

If there are two histories and this node's side loses, all questions are answered by comparing log indexes
(`metadata.log_indexes`) with the *common index* of both metadata logs, the last entry that both sides have:

    the queue was declared later             the winner has no such queue: this side alone has its messages
    the winner's ring is this node alone     the copy stays as it is; with former members at the winner,
                                                 messages of epochs that only this side began are set aside
    the winner began no epoch since, and     the copy belongs to an epoch that both sides know, and the
        may promote this node's copy             messages of that epoch and earlier ones stay in it
    the fork index was measured in a view    only the messages from the fork index on are this side's: all
        that both sides know, and the            copies of the winner descend from one that had the others
        winner had no gap since
    otherwise                                nothing is known to be shared

A fork index that is missing counts as zero, which sets aside too much and never too little. So does one that
was lost in a power failure: written again it would count as shared what only this side committed since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from mirrormq.metadata.log_indexes import UNKNOWN
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.entry_log import EntryLog

NOT_FORKED = 1 << 63
"""Fork index of a queue that only this node has: no sequence reaches it."""


class ForkIndex(msgspec.Struct, frozen=True, array_like=True):
    """Fork index of a queue's copy."""

    sequence: int
    """First sequence that another member may lack."""
    view: int
    """Log index of the view in which that was measured."""


class _Recorded(msgspec.Struct, frozen=True, array_like=True, tag="fork"):
    """Entry of the log, which holds at most one."""

    indexes: dict[int, ForkIndex]


class ForkIndexes:
    """Fork indexes of one node, by queue id, on its disk."""

    def __init__(self, log: EntryLog) -> None:
        self._log = log
        self._indexes: dict[int, ForkIndex] | None = None

    def open(self) -> None:
        """Read the fork indexes of an earlier incarnation."""
        for entry in self._log.open():
            try:
                self._indexes = msgspec.msgpack.decode(entry, type=_Recorded).indexes
            except msgspec.ValidationError:
                self._indexes = {}  # from a program before fork indexes: nothing counts as shared

    @property
    def begun(self) -> bool:
        """Return whether a node is missing, so that fork indexes exist."""
        return self._indexes is not None

    def begin(self, indexes: Mapping[int, ForkIndex]) -> None:
        """Write the fork indexes when the first node is missing. They stay if more nodes go missing."""
        if self._indexes is None:
            self._indexes = dict(indexes)
            self._log.append(msgspec.msgpack.encode(_Recorded(self._indexes)), sync=True)

    def drop_after(self, common: int) -> None:
        """Drop the fork indexes that were measured in views of a history that this node gives up: the log of
        its next history has other entries there."""
        if self._indexes is not None:
            self._indexes = {number: one for number, one in self._indexes.items() if one.view <= common}
            self._log.replace([msgspec.msgpack.encode(_Recorded(self._indexes))])

    def end(self) -> None:
        """Drop the fork indexes: all nodes are back and share one history."""
        if self._indexes is not None:
            self._indexes = None
            self._log.replace([])

    def find(self, queue_id: int) -> ForkIndex | None:
        """Return the fork index of a queue, if one is recorded."""
        return self._indexes.get(queue_id) if self._indexes is not None else None


class LostFork(NamedTuple):
    """Fork that this node's side has lost."""

    mine: MetadataState
    winner: MetadataState
    common: int
    """Last entry that the metadata logs of both sides share."""
    companions: Collection[str]
    """Connected nodes of the losing side."""
    at_ms: int

    def created_in_partition(self, queue: Queue) -> bool:
        """Return whether a queue of the losing side was declared there only."""
        return queue.indexes.declared > self.common

    def winners(self, queue: Queue) -> Queue | None:
        """Return the winner's record of a queue; None if it never had the queue, or has deleted it."""
        theirs = self.winner.queues.get(queue.key)
        if theirs is None or theirs.queue_id != queue.queue_id or self.created_in_partition(queue):
            return None
        return theirs


def first_unshared(me: str, queue: Queue, fork: LostFork, recorded: ForkIndex | None) -> int:
    """Return the first sequence of this node's copy that only its side has; 0 if all of it may be."""
    if fork.created_in_partition(queue):
        return 0
    theirs = fork.winners(queue)
    alone = theirs is not None and theirs.ring.members == (me,)
    if alone and theirs is not None and not theirs.former:
        return NOT_FORKED
    if theirs is not None and (alone or counts_on(me, queue, theirs, fork.common)):
        # The winner promotes a former member if it does not trust this node's disk. A rescue
        # (`copy_records.Rescue`) does not find messages of epochs that the winner never began.
        return first_sequence(theirs.ring.epoch + 1)
    if recorded is None or recorded.view > fork.common:
        return 0
    if theirs is not None and (theirs.waits_for or theirs.indexes.gap > recorded.view):
        return 0
    return recorded.sequence


def counts_on(me: str, mine: Queue, theirs: Queue, common: int) -> bool:
    """Return whether the winner may promote this node's copy to follow an epoch that both sides know.

    A node that has left the ring has kept its copy as it was, so the winner has its messages back even if the
    disks of this side's members have failed since. A member keeps its copy only for a queue that is down on
    the winner's side: nothing has happened to it there. To give such a copy up would leave the winner with a
    member in sync that is empty.
    """
    if theirs.indexes.epoch > common:
        return False
    same_epoch = theirs.indexes.epoch == mine.indexes.epoch
    former = {former.node: former.incarnation for former in mine.former}
    if me not in theirs.ring.in_sync and not (same_epoch and any(one.node == me for one in theirs.former)):
        return False
    if me in mine.ring.members:
        return bool(theirs.waits_for) and mine.indexes.gap <= common
    unbroken = former.get(me) == theirs.ring.incarnation_of(me)
    return same_epoch or (bool(theirs.waits_for) and unbroken)


def collects(me: str, queue: Queue, fork: LostFork) -> bool:
    """Return whether this node sets the unshared messages of a queue aside for its side.

    The master does or, if it is gone, the first synchronised mirror. A node that has left the ring does so,
    too, if it sees no member, because the members may never have received its messages; and if the winner
    counts on its copy, or may do so but indexes are unknown (`log_indexes.UNKNOWN`), because the disks of the
    members may have failed since it left.
    """
    if queue.exclusive:
        return False  # the queue ends with its connection
    view, alive = queue.ring, {me, *fork.companions}
    if me not in view.members:
        theirs = fork.winners(queue)
        awaited = theirs is not None and counts_on(me, queue, theirs, fork.common)
        return awaited or queue.indexes.view == UNKNOWN or not alive.intersection(view.members)
    complete = [name for name in view.members if name in view.in_sync and name in alive]
    return me == (view.master if view.master in alive or not complete else complete[0])
