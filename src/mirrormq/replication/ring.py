"""The ring: guaranteed multicast among the nodes that hold one queue.

# The promise

The master of a queue numbers what happens to it: operation 1, 2, 3 … The ring brings each operation
to every living member, in that order, exactly once, whoever dies on the way; and it tells the master
when an operation is everywhere, and when it is on every disk. That is all. It does not decide who is
a member, who is master, or who is dead: views do, and views come from the metadata, which orders them.

# The idea

The members form a circle in order of age, the master first: M → A → B → M. Operations travel to the right
only. The master sends a batch to A, which passes it on to B at once and only then works on it; B is the
last. So each operation leaves each node once, however many mirrors there are. What a member has, it
says to the master itself: two marks, how far it has *received* and how far it has it on *disk*. The
circle closes there, and the minimum over the members that count is what may be confirmed.

    M  sends 7…9 to A
    A  passes 7…9 on to B, writes them down, tells M (9, 9)
    B  writes them down, tells M (9, 6): its disk takes longer
    M  has (9, 9): up to 6 is on every disk and may be confirmed

Members that are not synchronised do not count: nobody waits for them, and they have their places at the
end of the circle, where a slow one delays nobody. (One that is about to be synchronised counts for a
while before it may be promoted: else what was confirmed just before without it could be lost with the
others.) What everybody has, and every disk that counts, is *stable*: nobody will ever ask for it again,
and logs are cut there. A member that is so far behind that nobody wants to keep the log for it any
longer is *excused*: it will find a gap, and begin again.

# When a member dies

A new view leaves it out. Its left neighbour has a new right neighbour and sends it everything behind
the stable mark again; what is known already is dropped by its number. What the master waited for is
then the minimum over fewer members, and so what only the dead one had not said is confirmed.

# When the master dies

A view of a higher epoch names the new one. It goes on numbering where its own log ends, the epoch's *base*:
an operation that only others knew never happened. Every member that counts had been waited for, so the
new master has all that was ever confirmed. A member may have more: the dead master's last words reached
it by another way, or it followed a master in between that the new one never heard of. So numbers alone
do not tell whether two members have the same operations. Each keeps a short *history*, the epochs that it
has followed and their bases, and laps carry the master's: up to the first difference both are the same
(`agreed`). A member that has more than that begins again.

A new master that had itself begun again, and has not been synchronised since, has a queue that its operations
do not account for. Its history begins with it, so that everybody else begins again too.

# Invariants

1.  An operation is only ever sent by its epoch's master or passed on by a member that received it.
2.  A member holds operations without gaps: `received` says it all.
3.  A member's log holds everything above its stable mark, up to `received`.
4.  Nothing of an older epoch is accepted after a newer epoch's view is known (G2).
5.  `completed` never goes back within an epoch. A new master knows of no disk but its own, beyond what
    is stable.
6.  A member speaks in an epoch only when it has its history: else it might pass on what never happened.
7.  A member that begins, or begins again, does so at the beginning of a neighbour's whole log.

# What was left out

Members do not watch each other here: the cluster's failure detector does, once per pair of nodes
instead of once per queue. Marks do not go round, as they do in RabbitMQ's guaranteed multicast: a
member in the middle that is slow would delay what the others have to say, and nobody could tell
who it was (decision 0011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq.metadata.ring_view import View
from mirrormq.replication.common_history import HISTORY_MAX, NOT_AT_ALL, History, agreed
from mirrormq.replication.operation_log import OperationLog
from mirrormq.replication.ring_messages import OperationBatch, ProgressReport

EARLY_BYTES_MAX = 16 * 1024 * 1024
"""Laps of views that this node has not heard of yet. A view takes a few milliseconds to arrive; who is
further behind than this asks its neighbour for everything once it has heard."""

OPERATION_BATCH_BYTES_MAX = 4 * 1024 * 1024
"""What a lap carries, unless a single operation is larger: after a long cut a whole log is sent, and the
link has other things to carry as well."""


NO_STANDING = -1
"""The attempt of a member whose copy rests on nothing yet."""


class Completed(NamedTuple):
    """How far the ring has come, as its master knows it."""

    received: int
    durable: int


class RingWork(NamedTuple):
    """What is to be done after a call."""

    operation_batches: list[tuple[str, OperationBatch]]
    report: ProgressReport | None
    """For the master."""
    operations: list[bytes]
    """To be applied, in order; the last of them has the number `received`."""
    diverged: bool
    """This member has operations that the master does not have, or lacks some that nobody will send it
    any more: it must start afresh."""
    lacking: bool
    """It lacks operations that its left-hand neighbour has: it should ask for them."""


def order(view: View) -> tuple[str, ...]:
    """The circle: in order of age, but those who do not count come last."""
    awaited = [name for name in view.members if view.awaits_confirms_of(name)]
    return (*awaited, *(name for name in view.members if name not in awaited))


class Ring:
    """One node's membership in one queue's ring."""

    def __init__(self, queue_id: int, me: str, view: View, received: int = 0, attempt: int = 0) -> None:
        self.queue_id = queue_id
        self.me = me
        self.log = OperationLog(received)
        self.durable = received - 1
        """The last operation that is on this node's disk. What was there before the first one may not be."""
        self.history: History = [(view.epoch, received)]
        """The epochs that this member has followed."""
        self.completed = Completed(received - 1, received - 1)
        """Master only."""
        self.reports: dict[str, ProgressReport] = {}
        """Master only: what each member said last."""
        self.excused: frozenset[str] = frozenset()
        """Master only: members that do not count and for which no log is kept."""
        self.start = received
        """It has the operations behind this one; what came before is for synchronisation to bring."""
        self.attempt = attempt
        """The synchronisation that this member's copy rests on; 0: it was born with the queue. While a view
        counts on another one, the master does not count it: it has begun again and lacks what it had."""
        self.congested: Callable[[str], bool] = lambda peer: False
        """Does so much wait for a peer that nothing should be added? What is held back meanwhile is in the
        log, if it is not cut; then the peer will begin again."""
        self._passed = received
        """The last operation that the right-hand neighbour was given."""
        self._told_right: tuple[int, int, int] | None = None
        """Version, base and stable mark last sent to the right."""
        self._told_home: tuple[int, int, int] | None = None
        """Attempt and marks last told to the master."""
        self._early: list[tuple[str, OperationBatch]] = []
        self._early_bytes = 0
        self._missed = (0, 0)
        """The last view of which laps came so early, and were so many, that they were not kept."""
        self._early_reports: dict[str, ProgressReport] = {}
        self._inbox: list[bytes] = []
        self.agreed_up_to = NOT_AT_ALL
        """When it has diverged: what came behind this operation never happened."""
        self._diverged = False
        self._asked_at: tuple[int, int] | None = None
        """Version and last operation when it asked its neighbour for what it lacks: once is enough."""
        self._look_at(view)
        self.fresh = not self.is_master
        """It has not heard a lap yet, and takes the first one's start as its own."""
        self._lacking = self.fresh

    def _look_at(self, view: View) -> None:
        self.view = view
        self.is_master = view.master == self.me
        """Does this node order the operations?"""
        self.is_member = self.me in view.members
        joined, standings = dict(view.joined), dict(view.sync_generations)
        self._joined = {name: joined.get(name, 0) for name in view.members}
        others = [name for name in view.members if name != self.me]
        self._others = [(name, view.awaits_confirms_of(name), standings.get(name, 0)) for name in others]
        """The others: do they count, and by which attempt?"""
        circle = order(view)
        at = circle.index(self.me) if self.is_member else 0
        self.right = circle[at + 1] if self.is_member and at + 1 < len(circle) else None
        """Who is spoken to; the last one has nobody to tell."""
        self.left = circle[at - 1] if self.is_member and at else None
        """Who speaks to this member; the master listens to nobody."""

    @property
    def received(self) -> int:
        """The last operation that this member has."""
        return self.log.last

    @property
    def stable(self) -> int:
        """Nobody will ask for operations up to this one."""
        return self.log.stable

    @property
    def established(self) -> bool:
        """Has it heard where the present epoch begins, and followed from there?"""
        return not self.fresh and self.history[-1][0] == self.view.epoch

    # -- what happens ---------------------------------------------------------------------------

    def broadcast(self, operation: bytes) -> int:
        """Master: number an operation; it goes out with the next `take`."""
        self.log.append(operation)
        return self.log.last

    def persisted(self, number: int) -> None:
        """Operations up to `number` are on this node's disk."""
        self.durable = max(self.durable, min(number, self.received))

    def receive(self, sender: str, operation_batch: OperationBatch) -> None:
        """A lap from another node."""
        view = self.view
        if (operation_batch.epoch, operation_batch.version) > (view.epoch, view.version):
            self._keep_early(sender, operation_batch)
            return
        if (
            operation_batch.epoch < view.epoch
            or sender != self.left
            or operation_batch.version < self._joined[self.me]
        ):
            return
        if self._accept_history(operation_batch):
            self._accept_operations(operation_batch)
            self.log.cut(operation_batch.stable)

    def _keep_early(self, sender: str, operation_batch: OperationBatch) -> None:
        self._early_bytes += sum(map(len, operation_batch.operations))
        self._early.append((sender, operation_batch))
        if self._early_bytes > EARLY_BYTES_MAX:
            self._missed = max(self._missed, *((early.epoch, early.version) for _, early in self._early))
            self._early.clear()

    def _accept_history(self, operation_batch: OperationBatch) -> bool:
        if self.fresh:
            if operation_batch.first != operation_batch.stable + 1:
                self._lacking = True
                return False
            self.fresh = False
            self._begin(operation_batch)
        elif operation_batch.epoch > self.history[-1][0]:
            limit = agreed(self.history, operation_batch.history)
            self._diverged = limit is not None and self.received > limit
            self.agreed_up_to = limit if limit is not None else self.received
        if not self._diverged:
            self.history = operation_batch.history
        return not self._diverged

    def _begin(self, operation_batch: OperationBatch) -> None:
        """Whoever was not there from the first operation on has no standing by birth."""
        self.start = self.durable = self._passed = operation_batch.stable
        self.log = OperationLog(operation_batch.stable)
        if not self.attempt and operation_batch.stable:
            self.attempt = NO_STANDING

    def _accept_operations(self, operation_batch: OperationBatch) -> None:
        known = self.received - operation_batch.first + 1
        if known < 0:
            self._diverged = operation_batch.first == operation_batch.stable + 1
            self._lacking = not self._diverged
            self.agreed_up_to = self.received
            return
        fresh = operation_batch.operations[known:]
        self.log.extend(fresh)
        self._inbox += fresh

    def report(self, sender: str, report: ProgressReport) -> None:
        """Master: what a member says it has."""
        if (report.epoch, report.version) > (self.view.epoch, self.view.version):
            self._early_reports[sender] = report
        elif self.is_master and report.epoch == self.view.epoch and report.joined == self._joined.get(sender):
            self.reports[sender] = report

    # -- views ----------------------------------------------------------------------------------

    def change(self, view: View) -> None:
        """The metadata has a new view; older ones than the present are ignored."""
        if (view.epoch, view.version) <= (self.view.epoch, self.view.version):
            return
        new_epoch = view.epoch > self.view.epoch
        missed = self._missed > (self.view.epoch, self.view.version)
        joined = self._joined
        self._look_at(view)
        kept = {} if new_epoch else self.reports
        self.reports = {name: kept[name] for name in kept if joined.get(name) == self._joined.get(name)}
        self._told_right = self._told_home = None
        self._passed = self.stable
        self._diverged = self._diverged and not new_epoch
        if not self.is_member:
            return
        if new_epoch and self.is_master:
            stands = not self.fresh and view.sync_generation(self.me) == self.attempt
            before = self.history[1 - HISTORY_MAX :] if stands else []
            self.history = [*before, (view.epoch, self.received)]
            known = self.stable if stands else NOT_AT_ALL
            self.completed = Completed(known, known)
            self.fresh = False
        early, self._early, self._early_bytes = self._early, [], 0
        self._lacking = self._lacking or missed or self.fresh
        for sender, operation_batch in early:
            self.receive(sender, operation_batch)
        early_reports, self._early_reports = self._early_reports, {}
        for sender, report in early_reports.items():
            self.report(sender, report)

    def send_again(self, peer: str) -> None:
        """A peer may lack what it was sent: give it everything that is not stable."""
        if peer == self.right:
            self._passed = self.stable
            self._told_right = None
        if peer == self.view.master:
            self._told_home = None

    # -- what is to be done ---------------------------------------------------------------------

    def take(self, *, reporting: bool = True, idle: bool = True) -> RingWork:
        """Everything to send and to apply since the last time. Not `reporting`: the disk comes first, what
        this member has is not told yet. Not `idle`: there will be more to say soon, so a new stable mark
        may wait for it."""
        operation_batches: list[tuple[str, OperationBatch]] = []
        report = None
        if self.is_member and self.established and not self._diverged:
            if self.is_master:
                self._settle()
            elif reporting:
                report = self._report()
            if self.right is not None and not self.congested(self.right):
                operation_batches = [
                    (self.right, operation_batch) for operation_batch in self._operation_batches(idle)
                ]
        diverged, self._diverged = self._diverged, False
        return RingWork(operation_batches, report, self.take_operations(), diverged, self._asks_now())

    def take_operations(self) -> list[bytes]:
        """What was received and is to be applied."""
        inbox, self._inbox = self._inbox, []
        return inbox

    def _asks_now(self) -> bool:
        lacking, self._lacking = self._lacking and self.left is not None, False
        now = (self.view.version, self.received)
        if not lacking or now == self._asked_at:
            return False
        self._asked_at = now
        return True

    def _settle(self) -> None:
        """Master: see how far the circle has come."""
        received = everyone = self.received
        durable = self.durable
        for name, counts, standing in self._others:
            said = self.reports.get(name)
            if name not in self.excused:
                everyone = min(everyone, self.stable if said is None else said.received)
            if counts and (said is None or said.attempt != standing):
                received = durable = NOT_AT_ALL
            elif counts and said is not None:
                received, durable = min(received, said.received), min(durable, said.durable)
        before = self.completed
        self.completed = Completed(max(before.received, received), max(before.durable, durable))
        self.log.cut(min(everyone, self.completed.durable))

    def _report(self) -> ProgressReport | None:
        marks = (self.attempt, self.received, self.durable)
        if marks == self._told_home:
            return None
        self._told_home = marks
        view = self.view
        return ProgressReport(self.queue_id, view.epoch, view.version, self._joined[self.me], *marks)

    def _operation_batches(self, idle: bool) -> list[OperationBatch]:
        self._passed = max(self._passed, self.stable)
        operations = self.log.after(self._passed)
        told = (self.view.version, self.history[-1][1], self.stable)
        known = self._told_right
        if not operations and known is not None and (told if idle else told[:2]) == known[: 3 if idle else 2]:
            return []
        self._told_right = told
        operation_batches = []
        for part in _parts(operations):
            operation_batches.append(self._operation_batch(part))
            self._passed += len(part)
        return operation_batches

    def _operation_batch(self, operations: list[bytes]) -> OperationBatch:
        view = self.view
        first = self._passed + 1
        return OperationBatch(
            self.queue_id, view.epoch, view.version, self.history, first, operations, self.stable
        )


def _parts(operations: list[bytes]) -> list[list[bytes]]:
    """Operations in parts that a lap can carry; at least one part."""
    if len(operations) < 2 or sum(map(len, operations)) <= OPERATION_BATCH_BYTES_MAX:
        return [operations]
    parts: list[list[bytes]] = [[]]
    room = OPERATION_BATCH_BYTES_MAX
    for operation in operations:
        if parts[-1] and len(operation) > room:
            parts.append([])
            room = OPERATION_BATCH_BYTES_MAX
        parts[-1].append(operation)
        room -= len(operation)
    return parts
