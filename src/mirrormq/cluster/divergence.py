"""Divergence marks: from which message on this node's copy of each queue may differ from the others'.

In a mode in which two sides may continue (`partitions`), a node cannot tell at the start of a partition
whether a missing node has failed or is only unreachable. Nor does it know which side will win. As soon as a
member is missing, each node therefore marks, for each of its queues, the first message that the missing
nodes may lack. The marks are dropped when all nodes are back and share one history. If there are two
histories and this node's side loses, the marks show what only this side can have:

    a sequence from the mark on      numbered since, or in flight then: no other node may have it
    a queue id from the floor on     assigned since; on the other side it may be another queue's

Marks are on disk before anything happens that only this side knows. Marks that were lost and made anew
would count all of that as shared. A queue without a mark counts as not shared, which sets aside too much
and never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from mirrormq.metadata.records import Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.entry_log import EntryLog


class DivergenceMark(msgspec.Struct, frozen=True, array_like=True):
    """Divergence of a queue's copies."""

    first: int
    """First sequence that the other nodes may lack."""
    shared: tuple[tuple[str, int], ...]
    """Other nodes that had everything before `first`, with their incarnations. In another incarnation they
    may have discarded it, as losers themselves."""


class Divergence(msgspec.Struct, frozen=True, array_like=True):
    """Entry of the log, which holds at most one."""

    floor: int
    marks: dict[int, DivergenceMark]


class SharedPrefix(Enum):
    """Action on this node's copy of a queue when its side has lost."""

    KEEP = "no other node has the queue: its copy stays unchanged"
    SET_ASIDE = "messages that only this side has are set aside"
    DROP = "another node of this side sets them aside, or the queue ends with its connection"


class DivergenceMarks:
    """Divergence marks of one node."""

    def __init__(self, log: EntryLog) -> None:
        self._log = log
        self._divergence: Divergence | None = None

    def open(self) -> None:
        """Read the marks of an earlier incarnation."""
        for entry in self._log.open():
            self._divergence = msgspec.msgpack.decode(entry, type=Divergence)

    @property
    def begun(self) -> bool:
        """Return whether marks exist: a node is missing."""
        return self._divergence is not None

    def begin(self, floor: int, marks: Mapping[int, DivergenceMark]) -> None:
        """Write the marks when the first node is missing. They stay unchanged if more nodes go missing."""
        if self._divergence is None:
            self._divergence = Divergence(floor, dict(marks))
            self._log.append(msgspec.msgpack.encode(self._divergence), sync=True)

    def end(self) -> None:
        """Drop the marks: all nodes are back and share one history."""
        if self._divergence is not None:
            self._divergence = None
            self._log.replace([])

    def created_in_partition(self, queue_id: int) -> bool:
        """Return whether a queue was declared since the marks. The other side may use its id for another
        queue."""
        return self._divergence is not None and queue_id >= self._divergence.floor

    def first(self, queue_id: int, theirs: Queue | None) -> int:
        """Return the first sequence of a queue that only this side has, given the winner's record of it."""
        mark = self._divergence.marks.get(queue_id) if self._divergence is not None else None
        if mark is None:
            return 0
        if theirs is None or theirs.queue_id != queue_id:
            return mark.first
        # The winner has all before the mark only if a member that had it is still in that incarnation.
        theirs_is_whole = not theirs.waits_for and theirs.ring.incarnations.intersection(mark.shared)
        return mark.first if theirs_is_whole else 0


def share(me: str, queue: Queue, alive: Iterable[str], winner: MetadataState) -> SharedPrefix:
    """Return the action on a queue that this node holds, when its side has lost."""
    theirs = winner.queues.get(queue.key)
    known = theirs if theirs is not None and theirs.queue_id == queue.queue_id else None
    if known is not None and (known.ring.members == (me,) or _counts_on(known, me, queue)):
        return SharedPrefix.KEEP
    if me not in queue.ring.members and first_after_awaited(me, queue, known) and not queue.exclusive:
        return SharedPrefix.SET_ASIDE  # the disks of the members may have failed since this node left
    if queue.exclusive or _collecting_node(queue.ring, set(alive), me) != me:
        return SharedPrefix.DROP
    return SharedPrefix.SET_ASIDE


def _counts_on(theirs: Queue, me: str, mine: Queue) -> bool:
    """Return whether the winner may promote the copy of this node.

    Neither side has promoted a master since they parted, so the copy belongs to the epoch that both know.
    To drop it would trust the master of this side, whose disk may have failed since. A member of the ring
    keeps its copy only if the queue is down on the winner's side: nothing has happened to it there.
    """
    if theirs.ring.epoch != mine.ring.epoch or (me in mine.ring.members and not theirs.waits_for):
        return False
    return me in theirs.ring.in_sync or any(former.node == me for former in theirs.former)


def first_after_awaited(me: str, mine: Queue, theirs: Queue | None) -> int:
    """Return the first sequence that the winner does not wait for, if it waits for this node's copy; else 0.

    The queue is down on the winner's side, and this node has been a synchronised member of its ring without a
    break, until now or until it left the ring on this side. So the winner's epoch is one that both sides
    know, and its messages stay. Only this side granted the later epochs. To give the whole copy up would
    leave the winner with a member in sync that is empty.
    """
    if theirs is None or theirs.queue_id != mine.queue_id or not theirs.waits_for:
        return 0
    incarnation = theirs.ring.incarnation_of(me)
    synchronised = {former.incarnation for former in mine.former if former.node == me}
    unbroken = incarnation and incarnation in {mine.ring.incarnation_of(me), *synchronised}
    if me not in theirs.ring.in_sync or not unbroken or theirs.ring.epoch >= mine.ring.epoch:
        return 0
    return first_sequence(theirs.ring.epoch + 1)


def _collecting_node(view: View, alive: set[str], me: str) -> str:
    """Return the node that sets messages aside for its side: the master or, if it is gone, the first
    synchronised mirror.

    A node that has left the ring but still has a copy does so, too, if it sees no member: the members may
    never have received its messages.
    """
    if me not in view.members and not alive.intersection(view.members):
        return me
    complete = [name for name in view.members if name in view.in_sync and name in alive]
    return view.master if view.master in alive or not complete else complete[0]
