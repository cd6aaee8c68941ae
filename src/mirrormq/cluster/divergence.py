"""Since when this node goes on without others: where its copy of each queue may differ from theirs.

In a mode in which two sides may go on (`partitions`), nobody knows at the moment of a cut who is dead and
who is only out of sight, nor which side will win. So as soon as a member is missing, each node marks for each
of its queues the first message that the missing ones may not have. When everybody is back and shares one
history the marks are forgotten. If there are two histories, and this node's side loses, they say what
only it can have:

    a sequence from the mark on      numbered since, or on its way then: nobody else may have it
    a queue id from the floor on     given since; on the other side it may be another queue's

Marks are on disk before anything happens that only this side knows: marks that were lost and made anew would
count all of that as everybody's. What has no mark counts as nobody else's, which sets aside too much and
never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from mirrormq.metadata.records import Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.storage.entry_log import EntryLog


class DivergenceMark(msgspec.Struct, frozen=True, array_like=True):
    """Where a queue's copies parted."""

    first: int
    """The first sequence that the others may lack."""
    shared: tuple[tuple[str, int], ...]
    """The other nodes that had everything before it, and in which life: in another one they may have given
    it up, as losers themselves."""


class Divergence(msgspec.Struct, frozen=True, array_like=True):
    """The log's one entry."""

    floor: int
    marks: dict[int, DivergenceMark]


class SharedPrefix(Enum):
    """What becomes of this node's copy of a queue when its side has lost."""

    KEEP = "nobody else has the queue: it stays as it is"
    SET_ASIDE = "what only this side has is set aside"
    DROP = "another node of this side sets it aside, or it dies with its clients"


class DivergenceMarks:
    """One node's marks."""

    def __init__(self, log: EntryLog) -> None:
        self._log = log
        self._parting: Divergence | None = None

    def open(self) -> None:
        """Read what an earlier life left."""
        for entry in self._log.open():
            self._parting = msgspec.msgpack.decode(entry, type=Divergence)

    @property
    def begun(self) -> bool:
        """Is somebody missing?"""
        return self._parting is not None

    def begin(self, floor: int, marks: Mapping[int, DivergenceMark]) -> None:
        """Somebody is missing. The first marks stand, whoever is missed later."""
        if self._parting is None:
            self._parting = Divergence(floor, dict(marks))
            self._log.append(msgspec.msgpack.encode(self._parting), sync=True)

    def end(self) -> None:
        """Everybody is back, and there is one history."""
        if self._parting is not None:
            self._parting = None
            self._log.replace([])

    def created_in_partition(self, queue_id: int) -> bool:
        """Was this queue declared since? Then its id means nothing to the others."""
        return self._parting is not None and queue_id >= self._parting.floor

    def first(self, queue_id: int, theirs: Queue | None) -> int:
        """The first sequence of a queue that only this side has, given the winner's record of it."""
        mark = self._parting.marks.get(queue_id) if self._parting is not None else None
        if mark is None:
            return 0
        if theirs is None or theirs.queue_id != queue_id:
            return mark.first
        theirs_is_whole = not theirs.waits_for and theirs.ring.incarnations.intersection(mark.shared)
        return mark.first if theirs_is_whole else 0


def share(me: str, queue: Queue, alive: Iterable[str], winner: MetadataState) -> SharedPrefix:
    """What this node does about a queue that it holds, when its side has lost."""
    theirs = winner.queues.get(queue.key)
    if theirs is not None and theirs.queue_id == queue.queue_id and theirs.ring.members == (me,):
        return SharedPrefix.KEEP
    if queue.exclusive or _speaker(queue.ring, set(alive), me) != me:
        return SharedPrefix.DROP
    return SharedPrefix.SET_ASIDE


def _speaker(view: View, alive: set[str], me: str) -> str:
    """The node that sets aside for its side: the master or, if it is gone, the next one with everything. Who
    has handed its copy on, and sees nobody of the ring, does so too: they may never have heard of it."""
    if me not in view.members and not alive.intersection(view.members):
        return me
    complete = [name for name in view.members if name in view.in_sync and name in alive]
    return view.master if view.master in alive or not complete else complete[0]
