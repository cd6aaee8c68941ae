"""Ring: guaranteed multicast among the nodes that hold one queue.

# The guarantee

The master of a queue numbers its operations: 1, 2, 3 … The ring brings each operation to every live member,
in that order, exactly once, no matter which members fail on the way. It reports to the master when every
member has received an operation, and when every disk has it. The ring does nothing else. It does not decide
which nodes are members, which is master, or which have failed: views do, and the metadata orders the views.

# The idea

The members form a circle in order of age, the master first: M → A → B → M. Operations travel to the right
only. The master sends a batch to A. A first passes it on to B and then processes it; B is the last. Each
operation therefore leaves each node once, however many mirrors there are. Each member reports its progress
to the master directly, as two marks: how far it has *received*, and how far it is on *disk*. The circle
closes there. The minimum over the members that confirms wait for may be confirmed.

    M  sends 7…9 to A
    A  passes 7…9 on to B, writes them to disk, reports (9, 9) to M
    B  writes them to disk, reports (9, 6) to M: its disk takes longer
    M  has (9, 9): operations up to 6 are on every disk and may be confirmed

Confirms do not wait for members that are neither synchronised nor joining. Their places are at the end of
the circle, where a slow one delays no other member. (Confirms wait for a joining member for a while before
it may be promoted. Otherwise a message that was confirmed without it just before could be lost with the
others.)

Operations that every member has received, and that are on every disk that confirms wait for, are *stable*:
no member will ever request them again, and logs are cut there. A member may be so far behind that the
master no longer keeps the log for it. Such a member is *excluded*: it will find a gap and begin again.

# When a member fails

A new view leaves it out. Its left neighbour has a new right neighbour and sends it everything after the
stable mark again; the receiver drops known operations by their numbers. The master now takes the minimum
over fewer members, and so confirms the operations for which only the failed member's report was missing.

# When the master fails

A view of a higher epoch names the new master. It continues numbering where its own log ends, the epoch's
*base*: an operation that it lacks counts as one that never happened. Confirms had waited for every member
that may be promoted, so the new master has all operations that were ever confirmed.

A member may have more operations than the new master. The failed master's last batches reached it by
another path, or it followed an intermediate master whose operations the new one never received. Numbers
alone therefore do not show whether two members have the same operations. Each member keeps a short
*history*: the epochs that it has followed and their bases. Operation batches carry the master's history; up
to the first difference both members have the same operations (`agreed`). A member that has more than that
begins again.

A new master may itself have begun again without being synchronised since. Its queue then holds messages
that its operations do not account for. Its history begins with it, so that all other members begin again,
too.

# Invariants

1.  Only the master of its epoch sends an operation, and only a member that received it passes it on.
2.  A member holds operations without gaps: `received` describes them all.
3.  A member's log holds everything above its stable mark, up to `received`.
4.  A member accepts nothing of an older epoch once it knows a newer epoch's view (one-master-per-epoch, G2).
5.  `completed` never goes back within an epoch. A new master knows of no disk but its own, beyond what
    is stable.
6.  A member sends in an epoch only once it has that epoch's history: otherwise it might pass on operations
    that never happened.
7.  A member that begins, or begins again, does so at the beginning of a neighbour's whole log.

# Omissions

Members do not monitor each other here: the cluster's failure detector does, once per pair of nodes instead
of once per queue. Marks do not travel round the ring, as they do in RabbitMQ's guaranteed multicast (gm): a
slow member in the middle would delay the reports of the others, and the master could not identify it
(decision 0011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq.metadata.ring_view import View
from mirrormq.replication.common_history import NOT_AT_ALL, History, agreed
from mirrormq.replication.member_states import BEHIND, DIVERGED, FOLLOWING, FRESH, MASTER
from mirrormq.replication.operation_log import OperationLog
from mirrormq.replication.replication_limits import DEFAULT_LIMITS, ReplicationLimits
from mirrormq.replication.ring_messages import OperationBatch, ProgressReport

NO_STANDING = -1
"""Sync generation of a member that has not been synchronised in this epoch."""


class Completed(NamedTuple):
    """Progress of the whole ring, as its master knows it."""

    received: int
    durable: int


class RingWork:
    """Work that is due after a call of `Ring.take`. No named tuple, whose creation is interpreted code."""

    __slots__ = ("diverged", "lacking", "operation_batches", "operations", "report")

    def __init__(
        self,
        operation_batches: list[tuple[str, OperationBatch]],
        report: ProgressReport | None,
        operations: list[bytes],
        diverged: bool,
        lacking: bool,
    ) -> None:
        self.operation_batches = operation_batches
        self.report = report
        """Progress report for the master."""
        self.operations = operations
        """Operations to apply, in order; the last of them has the number `received`."""
        self.diverged = diverged
        """This member has operations that the master lacks, or lacks some that no member can send any longer.
        It must begin again."""
        self.lacking = lacking
        """This member lacks operations that its left neighbour has, and should request them."""


def order(view: View) -> tuple[str, ...]:
    """Return the circle: members in order of age, but those that confirms do not wait for come last."""
    awaited = [name for name in view.members if view.awaits_confirms_of(name)]
    return (*awaited, *(name for name in view.members if name not in awaited))


class Ring:
    """Membership of one node in one queue's ring."""

    def __init__(
        self, queue_id: int, me: str, view: View, received: int = 0, attempt: int = 0,
        limits: ReplicationLimits = DEFAULT_LIMITS,
        congested: Callable[[str], bool] = lambda peer: False,
    ) -> None:  # fmt: skip
        self.queue_id, self.me, self.limits, self.congested = queue_id, me, limits, congested
        """`congested` tells whether so much waits for a peer that nothing should be added. Held-back
        operations stay in the log. If the log is cut meanwhile, the peer begins again."""
        self.log = OperationLog(received)
        self.durable = received - 1
        """Last operation on this node's disk; at first one before `received`, because the initial state may
        not be on disk."""
        self.history: History = [(view.epoch, received)]
        """Epochs that this member has followed, with their bases."""
        self.completed = Completed(received - 1, received - 1)
        """Progress of the whole ring (master only)."""
        self.reports: dict[str, ProgressReport] = {}
        """Last report of each member (master only)."""
        self.excluded: frozenset[str] = frozenset()
        """Members that confirms do not wait for and for which no log is kept (master only)."""
        self.start = received
        """Operation after which this member has all; synchronisation brings everything before it."""
        self.attempt = attempt
        """Sync generation of this member's copy; 0 if it has been a member since the queue was declared.

        If the view lists another generation, the master does not count this member's reports: it has begun
        again and lacks what it had.
        """
        self._passed = received
        """Last operation that was sent to the right neighbour."""
        self._sent_right: tuple[int, int, int] | None = None
        """Version, base and stable mark last sent to the right neighbour."""
        self._sent_report: tuple[int, int, int] | None = None
        """Sync generation and marks last reported to the master."""
        self._early: list[tuple[str, OperationBatch]] = []
        self._early_bytes = 0
        self._missed = (0, 0)
        """Last view of which early batches were dropped, because they exceeded `early_bytes_max`."""
        self._early_reports: dict[str, ProgressReport] = {}
        self._inbox: list[bytes] = []
        self.agreed_up_to = NOT_AT_ALL
        """Last operation in common with the master's history, if this member has diverged. Later ones never
        happened."""
        self._requested_at: tuple[int, int] | None = None
        """Version and last operation at the last request to the left neighbour: one per state is enough."""
        self._set_view(view)
        self.state = MASTER if view.master == me else FRESH
        self._lacking = self.state is FRESH

    def _set_view(self, view: View) -> None:
        self.view = view
        self.is_member = self.me in view.members
        joined, generations = dict(view.joined), dict(view.sync_generations)
        self._joined = {name: joined.get(name, 0) for name in view.members}
        others = [name for name in view.members if name != self.me]
        self._others = [(name, view.awaits_confirms_of(name), generations.get(name, 0)) for name in others]
        """Other members: whether confirms wait for them, and their sync generations."""
        self._unsettled = True
        """Something has changed since the progress of the whole ring was computed (master only)."""
        self._awaits_others = any(awaited for _, awaited, _ in self._others)
        circle = order(view)
        position = circle.index(self.me) if self.is_member else 0
        self.right = circle[position + 1] if self.is_member and position + 1 < len(circle) else None
        """Member that this one sends to; None for the last member."""
        self.left = circle[position - 1] if self.is_member and position else None
        """Member that this one receives from; None for the master."""

    @property
    def received(self) -> int:
        """Last operation that this member has."""
        return self.log.last

    @property
    def stable(self) -> int:
        """Last operation that no member will request again."""
        return self.log.stable

    @property
    def is_master(self) -> bool:
        """Whether this node orders the operations."""
        return self.state is MASTER

    @property
    def takes_part(self) -> bool:
        """Return whether this member may send operations and reports."""
        return self.is_member and (self.state is FOLLOWING or self.state is MASTER)

    # -- input ----------------------------------------------------------------------------------

    def broadcast(self, operation: bytes) -> int:
        """Number an operation (master only). It is sent with the next `take`."""
        log = self.log
        log.append(operation)
        # A member that confirms wait for has not received the operation yet: the ring's progress is the same.
        if not self._awaits_others:
            self._unsettled = True
        return log.last

    def persisted(self, number: int) -> None:
        """Record that operations up to `number` are on this node's disk."""
        durable = min(number, self.log.last)
        if durable > self.durable:
            self.durable = durable
            self._unsettled = True

    def receive(self, sender: str, operation_batch: OperationBatch) -> None:
        """Process an operation batch from another node."""
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
        if self._early_bytes > self.limits.early_bytes_max:
            self._missed = max(self._missed, *((early.epoch, early.version) for _, early in self._early))
            self._early.clear()

    def _accept_history(self, operation_batch: OperationBatch) -> bool:
        if self.state is FRESH:
            # Begin only at the start of the sender's whole log (invariant 7). Begun in the middle, this
            # member's log would lack operations above the stable mark (invariant 3).
            if operation_batch.first != operation_batch.stable + 1:
                self._lacking = True
                return False
            self._begin(operation_batch)
        elif self.state is BEHIND:
            limit = agreed(self.history, operation_batch.history)
            if limit is not None and self.received > limit:
                self.state = DIVERGED
            self.agreed_up_to = limit if limit is not None else self.received
        if self.state is DIVERGED:
            return False
        self.history = operation_batch.history
        self.state = FOLLOWING if self.history[-1][0] == self.view.epoch else BEHIND  # invariant 6
        return True

    def _begin(self, operation_batch: OperationBatch) -> None:
        """Begin at the start of a neighbour's log. A member that missed operations is not synchronised."""
        self.start = self.durable = self._passed = operation_batch.stable
        self.log = OperationLog(operation_batch.stable)
        if not self.attempt and operation_batch.stable:
            self.attempt = NO_STANDING

    def _accept_operations(self, operation_batch: OperationBatch) -> None:
        known = self.received - operation_batch.first + 1
        if known < 0:
            # Operations before the start of the sender's log are cut: no member can send them any longer.
            if operation_batch.first == operation_batch.stable + 1:
                self.state = DIVERGED
            self._lacking = self.state is not DIVERGED
            self.agreed_up_to = self.received
            return
        unknown = operation_batch.operations[known:]
        self.log.extend(unknown)
        self._inbox += unknown

    def report(self, sender: str, report: ProgressReport) -> bool:
        """Store a member's progress report (master only); return whether the whole ring has progressed."""
        view = self.view
        if (report.epoch, report.version) > (view.epoch, view.version):
            self._early_reports[sender] = report
        elif self.is_master and report.epoch == view.epoch and report.joined == self._joined.get(sender):
            self.reports[sender] = report
            self._unsettled = True
            return self.settle()
        return False

    # -- views ----------------------------------------------------------------------------------

    def change(self, view: View) -> None:
        """Adopt a new view of the metadata. Older views than the present one are ignored."""
        if (view.epoch, view.version) <= (self.view.epoch, self.view.version):
            return
        new_epoch = view.epoch > self.view.epoch
        missed = self._missed > (self.view.epoch, self.view.version)
        joined = self._joined
        self._set_view(view)
        kept = {} if new_epoch else self.reports
        self.reports = {name: kept[name] for name in kept if joined.get(name) == self._joined.get(name)}
        self._sent_right = self._sent_report = None
        self._passed = self.stable
        was_fresh = self.state is FRESH
        if new_epoch and view.master == self.me:
            self.state = MASTER
        elif new_epoch and not was_fresh:
            self.state = BEHIND
        if not self.is_member:
            return
        if new_epoch and self.is_master:
            # A master that began again holds more than its operations account for: with a history of its
            # own, every other member begins again, too.
            synchronised = not was_fresh and view.sync_generation(self.me) == self.attempt
            before = self.history[1 - self.limits.history_max :] if synchronised else []
            self.history = [*before, (view.epoch, self.received)]
            completed = self.stable if synchronised else NOT_AT_ALL
            self.completed = Completed(completed, completed)
        early, self._early, self._early_bytes = self._early, [], 0
        self._lacking = self._lacking or missed or self.state is FRESH
        for sender, operation_batch in early:
            self.receive(sender, operation_batch)
        early_reports, self._early_reports = self._early_reports, {}
        for sender, report in early_reports.items():
            self.report(sender, report)

    def send_again(self, peer: str) -> None:
        """Send everything that is not stable to a peer again, because it may lack what it was sent."""
        if peer == self.right:
            self._passed = self.stable
            self._sent_right = None
        if peer == self.view.master:
            self._sent_report = None

    # -- output ---------------------------------------------------------------------------------

    def take(self, *, reporting: bool = True, idle: bool = True) -> RingWork:
        """Return everything to send and to apply since the last call.

        Without `reporting`, the progress report waits for the disk. Without `idle`, more batches follow soon,
        so a new stable mark waits for one of them.
        """
        operation_batches: list[tuple[str, OperationBatch]] = []
        report = None
        if self.takes_part:
            if self.is_master:
                if idle:
                    self._unsettled = True  # members may have been excluded
                self.settle()
            elif reporting:
                report = self.next_report()
            right = self.right
            if right is not None and not self.congested(right):
                operation_batches = [
                    (right, operation_batch) for operation_batch in self._operation_batches(idle)
                ]
        diverged = self.state is DIVERGED
        return RingWork(operation_batches, report, self.take_operations(), diverged, self._must_request())

    def take_operations(self) -> list[bytes]:
        """Return the received operations that are to be applied."""
        inbox, self._inbox = self._inbox, []
        return inbox

    def _must_request(self) -> bool:
        lacking, self._lacking = self._lacking and self.left is not None, False
        now = (self.view.version, self.received)
        if not lacking or now == self._requested_at:
            return False
        self._requested_at = now
        return True

    def settle(self) -> bool:
        """Compute the progress of the whole ring from the reports (master only); return whether it grew."""
        if not self._unsettled or not self.takes_part:
            return False
        self._unsettled = False
        log = self.log
        received = everyone = log.last
        durable, excluded = self.durable, self.excluded
        for name, awaited, generation in self._others:
            report = self.reports.get(name)
            its_received = log.stable if report is None else report.received
            if its_received < everyone and name not in excluded:
                everyone = its_received
            if not awaited:
                continue
            # A report of another sync generation says nothing about the copy that the view counts on.
            if report is None or report.attempt != generation:
                received = durable = NOT_AT_ALL
                continue
            if its_received < received:
                received = its_received
            if report.durable < durable:
                durable = report.durable
        before = self.completed
        grows = received > before.received or durable > before.durable
        if grows:
            self.completed = Completed(max(before.received, received), max(before.durable, durable))
        log.cut(min(everyone, self.completed.durable))
        return grows

    def next_report(self) -> ProgressReport | None:
        """Return the progress report for the master; None if the last one is still right."""
        marks = (self.attempt, self.received, self.durable)
        if marks == self._sent_report:
            return None
        self._sent_report = marks
        view = self.view
        return ProgressReport(self.queue_id, view.epoch, view.version, self._joined[self.me], *marks)

    def _operation_batches(self, idle: bool) -> list[OperationBatch]:
        log = self.log
        if self._passed < log.stable:
            self._passed = log.stable
        header = (self.view.version, self.history[-1][1], log.stable)
        operations: list[bytes] = []
        if self._passed < log.last:
            operations = log.after(self._passed)
        else:
            sent = self._sent_right
            if sent is not None and (header if idle else header[:2]) == sent[: 3 if idle else 2]:
                return []
        self._sent_right = header
        operation_batches = []
        for part in _parts(operations, self.limits.operation_batch_bytes_max):
            operation_batches.append(self._operation_batch(part))
            self._passed += len(part)
        return operation_batches

    def _operation_batch(self, operations: list[bytes]) -> OperationBatch:
        view = self.view
        first = self._passed + 1
        return OperationBatch(
            self.queue_id, view.epoch, view.version, self.history, first, operations, self.stable
        )


def _parts(operations: list[bytes], bytes_max: int) -> list[list[bytes]]:
    """Split operations into parts that fit into a batch of `bytes_max`; at least one part."""
    if len(operations) < 2 or sum(map(len, operations)) <= bytes_max:
        return [operations]
    parts: list[list[bytes]] = [[]]
    room = bytes_max
    for operation in operations:
        if parts[-1] and len(operation) > room:
            parts.append([])
            room = bytes_max
        parts[-1].append(operation)
        room -= len(operation)
    return parts
