"""The ring: guaranteed multicast among the nodes that hold one queue.

# The promise

The master of a queue numbers what happens to it: operation 1, 2, 3 … The ring brings each operation
to every living member, in that order, exactly once, whoever dies on the way; and it tells the master
when an operation is everywhere, and when it is on every disk. That is all. It does not decide who is
a member, who is master, or who is dead: views do, and views come from the metadata, which orders them.

# The idea

The members form a circle in order of age, the master first: M → A → B → M. Each speaks only to its
right-hand neighbour. The master sends a batch of operations to A, which passes it on to B at once and
only then works on it; B is the last and tells M. When what M sent has come round, everybody has it.

A batch is passed on before it is on disk, so *received* and *on disk* travel apart: each lap message
carries two marks, and each member lowers a mark to its own if its own is lower. The marks that come
back to the master are therefore the minimum over the circle. Members that are not synchronised pass
marks on as they are: nobody waits for them. (One that is about to be counts for a while before it may
be promoted: else what was confirmed just before without it could be lost with the others.) A third
mark, `everyone`, is lowered by all, and comes round once more as `stable`: up to there nobody will
ever ask again, and logs are cut.

    M  sends 7…9, marks (9, 6)          its own disk has up to 6
    A  passes on 7…9, marks (9, 5)      A's disk is at 5
    B  tells M marks (9, 5)             up to 5 is on every disk: M may confirm that much

# When a member dies

A new view leaves it out. Its left neighbour has a new right neighbour and sends it everything behind
the stable mark again; what is known already is dropped by its number. Marks of an older view are
ignored, because they may have been lowered by the dead or not lowered by the new; marks start again
at the master, and so what waited for the dead one is released by the first lap of the new view.

# When the master dies

A view of a higher epoch names the new one. It goes on numbering where its own log ends (`base`): an
operation that only the dead master knew never happened. Data flows in order of age, so no member to
the right of the new master has more than it has. One to the left may (it was passed over because it
is not synchronised): it sees a `base` below its own last operation, and starts afresh.

# Invariants

1.  An operation is only ever sent by its epoch's master or passed on by a member that received it.
2.  A member holds operations without gaps: `received` says it all.
3.  A member's log holds everything above its stable mark, up to `received`.
4.  Nothing of an older epoch is accepted after a newer epoch's view is known (G2).
5.  `completed` never goes back within an epoch. A new master knows of no disk but its own.

6.  A member speaks in an epoch only when it knows the epoch's base: else it might pass on what never
    happened.

# What was left out

Members do not watch each other here: the cluster's failure detector does, once per pair of nodes
instead of once per queue. Marks do not travel without a turn of the loop: they ride on batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mirrormq.metadata.view import View
from mirrormq.replication.operations import Lap, Operation

EARLY_LAPS_MAX = 1024
"""Laps of views that this node has not heard of yet. A view takes a few milliseconds to arrive; a
member that is further behind than this will be sent everything again by its neighbour."""


UNKNOWN = -1
"""A mark that cannot be told yet."""


class Completed(NamedTuple):
    """How far the ring has come, as its master knows it."""

    received: int
    durable: int


class RingWork(NamedTuple):
    """What is to be done after a call."""

    sends: list[tuple[str, Lap]]
    operations: Sequence[Operation]
    """To be applied, in order; the last of them has the number `received`."""
    diverged: bool
    """This member has operations that the master does not have: it must start afresh."""


class Ring:
    """One node's membership in one queue's ring."""

    def __init__(self, queue_id: int, me: str, view: View, received: int = 0) -> None:
        self.queue_id = queue_id
        self.me = me
        self.view = view
        self.received = received
        """The last operation that this member has."""
        self.durable = received
        """The last one that is on its disk."""
        self.base = received
        self._base_epoch = view.epoch
        """The epoch that `base` belongs to."""
        self.stable = received
        self.completed = Completed(received, received)
        """Master only."""
        self.start = received
        """It has the operations behind this one; what came before is for synchronisation to bring."""
        self.attempt = 0
        """The synchronisation that this member's copy rests on. While a view counts on an earlier one, it
        holds the marks back: it has begun again and lacks what it once had."""
        self.fresh = True
        """It has not heard a lap yet, and takes the first one's start as its own."""
        self._log: deque[Operation] = deque()
        """Operations stable + 1 … received."""
        self._outbox: list[Operation] = []
        """What the right-hand neighbour has not been given yet; the last of it is `received`."""
        self._left = (received, received, received)
        """The marks that the left-hand neighbour last sent in this view: everyone, received, durable."""
        self._left_known = False
        self._told: tuple[int, int, int, int] | None = None
        """The marks last sent to the right, and the stable mark with them."""
        self._early: list[tuple[str, Lap]] = []
        self._inbox: list[Operation] = []
        self._sends: list[tuple[str, Lap]] = []
        self._diverged = False
        if self.is_master:
            self.fresh = False

    # -- who is where ---------------------------------------------------------------------------

    @property
    def is_master(self) -> bool:
        """Does this node order the operations?"""
        return self.view.master == self.me

    @property
    def _right(self) -> str:
        members = self.view.members
        return members[(members.index(self.me) + 1) % len(members)]

    @property
    def left_neighbour(self) -> str:
        """Who speaks to this member."""
        members = self.view.members
        return members[members.index(self.me) - 1]

    @property
    def established(self) -> bool:
        """Has it heard where the present epoch begins, and followed from there?"""
        return not self.fresh and self._base_epoch == self.view.epoch

    @property
    def heard_all_round(self) -> bool:
        """Master: has a lap of the present view come round?"""
        return self._left_known or len(self.view.members) == 1

    # -- the master -----------------------------------------------------------------------------

    def broadcast(self, operation: Operation) -> int:
        """Number an operation; it goes out with the next `take`."""
        self.received += 1
        self._log.append(operation)
        self._outbox.append(operation)
        return self.received

    # -- everybody ------------------------------------------------------------------------------

    def persisted(self, number: int) -> None:
        """Operations up to `number` are on this node's disk."""
        self.durable = max(self.durable, min(number, self.received))

    def receive(self, sender: str, lap: Lap) -> None:
        """A lap from another node."""
        if (lap.epoch, lap.version) > (self.view.epoch, self.view.version):
            if len(self._early) < EARLY_LAPS_MAX:
                self._early.append((sender, lap))
            return
        if lap.epoch < self.view.epoch or self.me not in self.view.members or sender != self.left_neighbour:
            return
        if self.is_master:
            self._lap_completed(lap)
            return
        if not self._accept_base(lap):
            return
        self._accept_operations(lap)
        if lap.version == self.view.version and lap.everyone != UNKNOWN:
            self._left = (lap.everyone, lap.received, lap.durable)
            self._left_known = True
        self._trim(lap.stable)

    def _accept_base(self, lap: Lap) -> bool:
        if self.fresh:
            self.fresh = False
            self._base_epoch = lap.epoch
            self.start = self.received = self.durable = self.stable = lap.first - 1
            self.base = lap.base
        elif lap.epoch > self._base_epoch:
            self._diverged = self.received > lap.base
            self._base_epoch, self.base = lap.epoch, lap.base
        return not self._diverged

    def _accept_operations(self, lap: Lap) -> None:
        known = self.received - lap.first + 1
        if known < 0:
            self._diverged = True
            return
        fresh = lap.operations[known:]
        self._log.extend(fresh)
        self._inbox.extend(fresh)
        self._outbox.extend(fresh)
        self.received += len(fresh)

    def _lap_completed(self, lap: Lap) -> None:
        if lap.version != self.view.version or lap.everyone == UNKNOWN:
            return
        self._left = (lap.everyone, lap.received, lap.durable)
        self._left_known = True

    def _trim(self, stable: int) -> None:
        while self.stable < stable and self._log:
            self._log.popleft()
            self.stable += 1

    # -- views ----------------------------------------------------------------------------------

    def change(self, view: View) -> None:
        """The metadata has a new view; older ones than the present are ignored."""
        if (view.epoch, view.version) <= (self.view.epoch, self.view.version):
            return
        new_epoch = view.epoch > self.view.epoch
        self.view = view
        self._left_known = False
        self._told = None
        if self.me not in view.members:
            return
        if new_epoch and self.is_master:
            self.base, self._base_epoch = self.received, view.epoch
            self.completed = Completed(self.stable, 0)
            self.fresh = False
        self._send_again()
        early, self._early = self._early, []
        for sender, lap in early:
            self.receive(sender, lap)

    def reconnected(self, peer: str) -> None:
        """The link to a peer is new: what was on the old one may be lost."""
        if self.me in self.view.members and peer == self._right and peer != self.me:
            self._send_again()

    def _send_again(self) -> None:
        """Everything that anybody may lack goes out once more."""
        self._outbox = list(self._log)
        self._told = None

    # -- what is to be done ---------------------------------------------------------------------

    def take(self) -> RingWork:
        """Everything to send and to apply since the last time."""
        if self.me in self.view.members and not self._diverged:
            if self.is_master:
                self._settle()
            self._speak()
        sends, self._sends = self._sends, []
        inbox, self._inbox = self._inbox, []
        diverged, self._diverged = self._diverged, False
        return RingWork(sends, inbox, diverged)

    def _marks(self) -> tuple[int, int, int]:
        """The marks to pass on; not known while the left-hand neighbour's of this view are not."""
        if self.is_master:
            return self.received, self.received, self.durable
        if not self._left_known:
            return UNKNOWN, UNKNOWN, UNKNOWN
        everyone, received, durable = self._left
        everyone = min(everyone, self.received)
        if self.view.counts(self.me):
            if self.view.standing(self.me) != self.attempt:
                return everyone, 0, 0
            received, durable = min(received, self.received), min(durable, self.durable)
        return everyone, received, durable

    def _settle(self) -> None:
        """Master: see how far the circle has come."""
        if len(self.view.members) == 1:
            self.completed = Completed(self.received, self.durable)
            self._trim(self.received)
        elif self._left_known:
            everyone, received, durable = self._left
            self.completed = Completed(
                max(self.completed.received, received), max(self.completed.durable, durable)
            )
            self._trim(everyone)

    def _speak(self) -> None:
        right = self._right
        marks = self._marks()
        if right == self.me or not self.established:
            return
        operations, self._outbox = self._outbox, []
        if right == self.view.master:
            operations = []
        told = (*marks, self.stable)
        if not operations and told == self._told:
            return
        first = self.received - len(operations) + 1
        everyone, received, durable = marks
        lap = Lap(
            self.queue_id, self.view.epoch, self.view.version, self.base, first, operations,
            everyone, received, durable, self.stable,
        )  # fmt: skip
        self._sends.append((right, lap))
        self._told = told
