"""Replica of one mirrored queue on one node: master or mirror, and the change between both.

All input arrives as calls: a view from the metadata, a message from another member, a completed journal
flush. All output leaves by `take`: messages to send, and the proposal for the metadata. The parts are
independent of each other: the ring transports, the copy stores, the synchroniser catches mirrors up. The
replica connects them.

A turn calls `take` twice. Before the disk write, operations go on to the next member; after it, members
report their progress, and the master sees which operations are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from mirrormq.metadata.ring_view import View
from mirrormq.queues.backing import BackingQueue, QueueStore
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.replication.common_history import NOT_AT_ALL
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.replication.mirror_sync import MirrorSynchroniser
from mirrormq.replication.replicating_backing import ReplicatingBackingQueue
from mirrormq.replication.replication_limits import DEFAULT_LIMITS, ReplicationLimits
from mirrormq.replication.ring import Completed, Ring
from mirrormq.replication.ring_messages import (
    OperationBatch,
    ProgressReport,
    ReplicaMessage,
    ResendRequest,
    SyncAck,
    SyncBatch,
    SyncRequest,
)
from mirrormq.replication.ring_operations import AppendOperation, RemoveOperation, decode
from mirrormq.replication.synchronisation import SyncPace, first_sequence
from mirrormq.sequences.sequence_set import SequenceSet, unpack


class ReplicaOptions:
    """Replica options from the queue's declaration and policies; may change at any time."""

    def __init__(
        self,
        *,
        durable: bool,
        automatic: bool = True,
        pace: SyncPace | None = None,
        limits: ReplicationLimits = DEFAULT_LIMITS,
        attempts: Iterator[int] | None = None,
        is_over: Callable[[str], bool] = lambda holder: False,
        congested: Callable[[str], bool] = lambda peer: False,
        keep_surplus: Callable[[SequenceSet], None] = lambda surplus: None,
        on_dirty: Callable[[bool], None] = lambda urgent: None,
    ) -> None:
        self.durable = durable
        self.limits = limits
        self.automatic = automatic
        """`ha-sync-mode`."""
        self.pace = pace or SyncPace()
        self.paused = False
        """Flag: memory is short, and no mirror is synchronised."""
        self.attempts = count(1) if attempts is None else attempts
        """Numbers of synchronisation attempts; the node uses none twice, also not in another incarnation."""
        self.redeliver_lost = False
        """`ha-redeliver: lost`."""
        self.is_over = is_over
        """Return whether a holder (node in one incarnation) has ended."""
        self.congested = congested
        """Return whether so much output waits for a peer that nothing should be added."""
        self.keep_surplus = keep_surplus
        """Set confirmed messages aside that the master lacks, before the mirror drops them."""
        self.on_dirty = on_dirty
        """Visit the replica, because its master has operations to send: in this turn if they are urgent."""


class ReplicaWork:
    """Output of a replica after a call."""

    __slots__ = ("completed", "proposal", "sends")

    def __init__(
        self, sends: list[tuple[str, ReplicaMessage]], proposal: View | None, completed: Completed | None
    ) -> None:
        self.sends = sends
        self.proposal = proposal
        """View that the metadata should adopt, if nothing has changed meanwhile."""
        self.completed = completed
        """Progress of the ring; master only."""


class UnconfirmedOperations(NamedTuple):
    """Publish of this node's clients that is not known to be on every member's disk."""

    append: AppendOperation
    incomplete: bool
    """Flag: not every synchronised member is known to have received it, or to have it as it should be."""


class Replica:
    """Replica of a queue on one of its nodes."""

    def __init__(
        self,
        queue_id: int,
        me: str,
        view: View,
        store: QueueStore,
        budget: MemoryBudget,
        options: ReplicaOptions,
        make_backing: Callable[[int, bool], BackingQueue],
        received: int = 0,
    ) -> None:
        self.queue_id = queue_id
        self.me = me
        self.options = options
        self._store = store
        self._budget = budget
        self._make_backing = make_backing
        """Factory of the backing queue over all stored messages; takes the delivery mark, and whether the
        store's own mark counts as well."""
        self._sends: list[tuple[str, ReplicaMessage]] = []
        self._asked = 0
        """Attempt of the pending synchronisation request; 0 if none is pending."""
        self._unflushed: list[tuple[str, ReplicaMessage]] = []
        """Batch acknowledgements that are sent when the batches are on disk."""
        self._early_joins: dict[str, SyncRequest] = {}
        self._applied = received
        """Last operation that the copy has applied."""
        self.ring = Ring(queue_id, me, view, received, limits=options.limits, congested=options.congested)
        self.copy: MirrorCopy | None = None
        self.backing: ReplicatingBackingQueue | None = None
        self.service: MirrorSynchroniser | None = None
        if not self.ring.is_master:
            self.copy = MirrorCopy(store, budget, durable=options.durable)

    @property
    def view(self) -> View:
        """Current view of the ring."""
        return self.ring.view

    @property
    def at_rest(self) -> bool:
        """Return whether nothing is pending that depends on time alone."""
        if self.service is not None and self.service.sessions:
            return False
        return self.ring.stable == self.ring.received

    @property
    def synchronised(self) -> bool:
        """Return whether this member is synchronised, as far as it knows."""
        return self.me in self.view.in_sync and self._counts_in_view()

    # -- role changes ---------------------------------------------------------------------------

    def wrap(self, inner: BackingQueue, out: list[Message]) -> ReplicatingBackingQueue:
        """Wrap the master's backing queue, so that every change goes round the ring. `out` are the known
        messages that consumers hold."""
        self.service = service = MirrorSynchroniser(self.ring, self.options)
        self.backing = ReplicatingBackingQueue(
            inner, self._store, self.ring.broadcast, service.removed, service.appeared, out,
            service.lateness.ring_is_behind, self.ring.received, self._budget.limits,
            repaired=service.repaired, on_dirty=self.options.on_dirty,
        )  # fmt: skip
        service.backing = self.backing
        return self.backing

    def _become_master(self, *, complete: bool) -> None:
        """Become master. An incomplete copy forgets its publish ids: it may lack messages below the highest
        id that it knows, and a duplicate is better than a loss."""
        copy = self.copy
        assert copy is not None
        # The backing queue is built over the store alone.
        copy.page_out()
        trusted = complete and copy.gated and self.options.redeliver_lost
        redelivered_up_to = self._lost_up_to(copy) if trusted else copy.delivered_up_to
        backing = self._make_backing(redelivered_up_to, not trusted)
        # The last master may have used sequences that this copy has never seen.
        backing.next_sequence = max(backing.next_sequence, first_sequence(self.view.epoch))
        mirrored = self.wrap(backing, [])
        mirrored.delivered_up_to = copy.delivered_up_to
        mirrored.delivered_by, mirrored.gated, mirrored.trusted = copy.delivered_by, copy.gated, trusted
        assert self.service is not None
        self.service.producers = copy.producers if complete else {}
        if not complete:
            self._store.replace_producer_ids({}, backing.next_sequence)
        self.copy = None

    def _lost_up_to(self, copy: MirrorCopy) -> int:
        """Return the highest sequence that lost clients have had, or that clients have requeued."""
        marks = copy.delivered_by.items()
        return max([mark for holder, mark in marks if not holder or self.options.is_over(holder)], default=0)

    def _become_mirror(self) -> None:
        """Become a mirror. The queue in front of the backing queue is already detached."""
        backing = self.backing
        assert backing is not None and self.service is not None
        in_memory = backing.in_memory()
        backing.forget_all()
        self.copy = MirrorCopy(self._store, self._budget, durable=self.options.durable, in_memory=in_memory)
        self.copy.deliver(backing.delivered_up_to)
        self.copy.delivered_by, self.copy.gated = backing.delivered_by, backing.gated
        self.copy.producers = dict(self.service.producers)
        self.backing = self.service = None

    def unsettled(self, producer: str) -> list[UnconfirmedOperations]:
        """Return the appends of a producer that the master's operation log still has."""
        ring = self.ring
        found = []
        for offset, data in enumerate(ring.log.after(ring.stable)):
            operation = decode(data)
            if isinstance(operation, AppendOperation) and operation.producer == producer:
                durable = self.options.durable and operation.persistent
                mark = ring.completed.durable if durable else ring.completed.received
                found.append(UnconfirmedOperations(operation, ring.stable + 1 + offset > mark))
        return found

    def unsettled_removals(self) -> list[int]:
        """Return the sequences that have left the master's queue and that some synchronised mirror may still
        hold."""
        ring = self.ring
        if self.backing is not None:
            self.backing.flush_operations()
        first = max(ring.completed.received, ring.stable)
        removals = [decode(data) for data in ring.log.after(first)]
        ranges = [span for one in removals if isinstance(one, RemoveOperation) for span in one.ranges]
        return [number for start, size in ranges for number in range(start, start + size)]

    # -- input ----------------------------------------------------------------------------------

    def change(self, view: View) -> None:
        """Adopt a new view from the metadata."""
        before = self.ring.view
        if (view.epoch, view.version) <= (before.epoch, before.version):
            return
        was_master = self.ring.is_master
        # Finish the old view first. A deposed master is compared with the next one by its log: a removal that
        # is not in it would leave the copy short, unnoticed. A new master numbers on from the end of its log,
        # so its copy must have applied everything in it.
        if self.backing is not None:
            self.backing.flush_operations()
        self._apply(self.ring.take_operations())
        self.ring.change(view)
        if was_master and not self.ring.is_master:
            self._become_mirror()
        elif self.ring.is_master and not was_master:
            self._become_master(complete=self.me in before.in_sync)
        if self.service is not None:
            self.service.changed(before)
        if view.epoch > before.epoch or self._counts_in_view():
            self._asked = 0
        if self.copy is not None and self.me in view.in_sync and self._counts_in_view():
            self.copy.end_synchronisation()
        early, self._early_joins = self._early_joins, {}
        for sender, join in early.items():
            self.receive(sender, join)

    def _counts_in_view(self) -> bool:
        """Return whether the view counts on this member's copy."""
        return (
            self.view.awaits_confirms_of(self.me) and self.view.sync_generation(self.me) == self.ring.attempt
        )

    def receive(self, sender: str, message: ReplicaMessage) -> bool:
        """Handle a message from another member; return False if `take` has nothing to do afterwards."""
        if isinstance(message, ProgressReport):
            progressed = self.ring.report(sender, message)
            return progressed or self.service is None or not self.service.steady
        if isinstance(message, OperationBatch):
            self.ring.receive(sender, message)
        else:
            self._receive_other(sender, message)
        return True

    def _receive_other(self, sender: str, message: ResendRequest | SyncRequest | SyncBatch | SyncAck) -> None:
        # A mirror asks once, and may have the view before its master has it: keep the request.
        if isinstance(message, SyncRequest) and (message.epoch, message.version) > self.view[:2]:
            self._early_joins[sender] = message
        elif message.epoch != self.view.epoch:
            return
        elif isinstance(message, ResendRequest):
            self.ring.send_again(sender)
        elif isinstance(message, SyncBatch):
            self._synchronise(sender, message)
        elif self.service is not None and isinstance(message, SyncRequest):
            answer = self.service.joined(sender, message)
            if answer is not None:
                self._sends.append((sender, answer))
        elif self.service is not None and isinstance(message, SyncAck):
            self.service.taken(sender, message)

    def committed(self, now_ms: int) -> ReplicaWork | None:
        """Record that all applied operations are on disk; return the output that waited for it."""
        self.flushed()
        ring, service = self.ring, self.service
        if service is not None:
            if not service.steady:
                return self.take(now_ms, idle=False)
            return ReplicaWork([], None, ring.completed) if ring.settle() else None
        sends, self._sends = self._sends, []
        report = ring.next_report() if ring.takes_part else None
        if report is not None:
            sends.append((self.view.master, report))
        return ReplicaWork(sends, None, None) if sends else None

    def flushed(self) -> None:
        """Record that all applied operations are on disk."""
        # A mirror passes operations on before it applies them: only the applied ones are in its journal.
        self.ring.persisted(self.ring.received if self.ring.is_master else self._applied)
        if self._unflushed:
            self._sends += self._unflushed
            self._unflushed = []

    def reconnected(self, peer: str) -> None:
        """Resend after a new link to a peer: messages on the old one may be lost."""
        self.ring.send_again(peer)
        if peer == self.view.master:
            self._asked = 0

    # -- output ---------------------------------------------------------------------------------

    def take(self, now_ms: int, *, reporting: bool = True, idle: bool = True) -> ReplicaWork:
        """Return all output since the last call. The first call of a turn is not `reporting`: the disk write
        follows it. `idle` calls come now and then; they finish work that is worth no message, and check for
        late members."""
        if self.backing is not None and (self.backing.urgent or idle or self._synchronises):
            self.backing.flush_operations()
        if self.service is not None and idle:
            self.service.lateness.excuse(now_ms)
        work = self.ring.take(reporting=reporting, idle=idle)
        self._sends += work.operation_batches
        if work.report is not None:
            self._sends.append((self.view.master, work.report))
        if work.lacking and self.ring.left is not None:
            self._sends.append((self.ring.left, ResendRequest(self.queue_id, self.view.epoch)))
        self._apply(work.operations)
        if work.diverged:
            self._start_afresh()
        proposal = None
        if self.service is not None:
            proposal = self._serve(self.service, now_ms, idle)
        else:
            self._ask_to_join()
        sends, self._sends = self._sends, []
        return ReplicaWork(sends, proposal, self.ring.completed if self.ring.is_master else None)

    @property
    def _synchronises(self) -> bool:
        """Return whether mirrors are being synchronised. Their batches must not contain messages that have
        left."""
        return self.service is not None and bool(self.service.sessions)

    def _apply(self, operations: list[bytes]) -> None:
        if operations and self.copy is not None:
            self.copy.apply(operations)
        self._applied = self.ring.received

    def _serve(self, service: MirrorSynchroniser, now_ms: int, looking: bool) -> View | None:
        service.lateness.note(now_ms)
        if len(self.view.members) == 1:
            return None
        self._sends += service.batches(now_ms)
        return service.proposal(now_ms, looking=looking)

    # -- mirror side ----------------------------------------------------------------------------

    def _start_afresh(self) -> None:
        """Restart after operations that the master does not have. Known operations are undone at once; for
        the rest, synchronisation compares sequences."""
        assert self.copy is not None
        ring = self.ring
        since = ring.log.after(max(ring.agreed_up_to, ring.stable))
        self.copy.begin_again(since, doubtful=ring.agreed_up_to == NOT_AT_ALL)
        self.ring = Ring(
            self.queue_id, self.me, self.view, attempt=next(self.options.attempts),
            limits=self.options.limits, congested=self.options.congested,
        )  # fmt: skip
        self._applied = 0
        self._asked = 0

    def _ask_to_join(self) -> None:
        if self._asked or self._counts_in_view() or not self.ring.takes_part:
            return
        assert self.copy is not None
        view = self.view
        self._asked = self.ring.attempt = next(self.options.attempts)
        have = self.copy.begin_synchronisation().pack()
        join = SyncRequest(self.queue_id, view.epoch, view.version, self._asked, self._applied, have)
        self._sends.append((view.master, join))

    def _synchronise(self, sender: str, batch: SyncBatch) -> None:
        if sender != self.view.master or self.copy is None or batch.attempt != self._asked:
            return
        if batch.drop is not None:
            self.copy.introduce(batch.delivered_up_to, batch.producers, batch.delivered_by, batch.gated)
            # Set aside before dropping: this may be the last copy of a confirmed message.
            surplus = unpack(batch.drop)
            self.options.keep_surplus(surplus)
            self.copy.drop(surplus.spans())
        self.copy.synchronise(batch.messages)
        self._unflushed.append((sender, SyncAck(self.queue_id, batch.epoch, batch.attempt)))
