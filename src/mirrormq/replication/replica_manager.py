"""Replica manager: all rings of this node, one replica per mirrored queue, visited when there is work.

The queue roles (`queue_roles`) report this node's role for each queue, as the metadata decides it:

    lead(record, queue)      master, and the ring has other members
    mirror(record)           mirror
    leave(queue_id)          neither

A turn calls this class twice. `flush_operations` runs before the disk sync: operations are sent to the next
member before this node has written them. `commit` runs after the sync: members report what they hold, and
masters confirm what is complete. Replicas without changes are not visited. A slow tick handles what no event
triggers: late mirrors, logs to truncate, lost proposals.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from mirrormq.metadata import commands, records
from mirrormq.metadata.ring_view import View
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.publish_ids import SeenPublishIds
from mirrormq.queues.queue import Queue
from mirrormq.replication.queue_factory import make_backing_queue, queue_settings
from mirrormq.replication.replica import Replica, ReplicaOptions, ReplicaWork
from mirrormq.replication.replication_limits import ReplicationLimits
from mirrormq.replication.ring_messages import ReplicaMessage, RingBatch
from mirrormq.replication.synchronisation import SyncPace

if TYPE_CHECKING:
    from mirrormq.replication.replication_host import RoleHost

TICK_MS = 500
"""Interval of the tick: a tenth of the time that a mirror may be late."""

ATTEMPTS_PER_INCARNATION = 1 << 32
"""Size of the number range for synchronisation attempts in each incarnation of the node."""

REMOVALS_WAIT_MS = 5
"""Delay after which removals are sent to mirrors without other operations. Acknowledgements usually travel
with the next publishes: an operation batch of removals alone costs every member as much as a full one."""

PROPOSE_AGAIN_MS = 2_000
"""Time after which a proposal without effect is repeated: the leader may have changed. Even a slow cluster
answers faster."""


class ReplicaManager:
    """Replicas of one node."""

    def __init__(
        self, broker: RoleHost, send: Callable[[str, RingBatch], None], congested: Callable[[str], bool],
        limits: ReplicationLimits,
    ) -> None:  # fmt: skip
        self._broker = broker
        self._clock, self._journal = broker.clock, broker.journal
        self._me = broker.settings.name
        self._limits = limits
        self._attempts = count(broker.incarnation * ATTEMPTS_PER_INCARNATION + 1)
        """Numbers of synchronisation attempts over all queues; none is used twice."""
        self._send = send
        self._congested = congested
        self.replicas: dict[int, Replica] = {}
        """Replicas by queue id."""
        self._queues: dict[int, Queue] = {}
        """Queues of which this node is master, by id."""
        self._dirty: dict[int, Replica] = {}
        """Replicas that have changed in this turn."""
        self._uncommitted: dict[int, Replica] = {}
        """Replicas that have sent operations and wait for the disk."""
        self._restless: dict[int, Replica] = {}
        """Replicas that may have work left for the tick."""
        self._last_operations: dict[int, int] = {}
        """Last operation number of queues that are no longer mirrored; numbering continues there."""
        self._mail: dict[str, list[ReplicaMessage]] = {}
        self._proposals: dict[int, View] = {}
        self._proposed: dict[int, tuple[int, int]] = {}
        """View version and time of the last proposal, by queue."""
        self._paused = False
        self._paced: set[int] = set()
        """Queues whose synchronisation waits for its next time slot."""
        self._ticking = False

    # -- roles ----------------------------------------------------------------------------------

    def lead(self, record: records.Queue, queue: Queue) -> None:
        """Apply a view of a queue of which this node is master: the queue has mirrors, or has lost the last
        one."""
        view, replica = record.ring, self.replicas.get(record.queue_id)
        if replica is None and len(view.members) == 1:
            return
        if replica is None:
            received = self._last_operations.pop(record.queue_id, 0)
            replica = self._make(record, received)
            backing = replica.wrap(queue.backing, self._broker.unacked_of(queue, record.queue_id))
            stored = self._journal.queue(record.queue_id).delivered_up_to
            backing.delivered_up_to = max(stored, queue.marks.delivered_up_to)
            self._mirror(replica, queue)
        else:
            replica.change(view)
        if len(view.members) == 1:
            self._unmirror(replica, queue)
        else:
            self.touch(record.queue_id)

    def promote(self, record: records.Queue, make: Callable[[BackingQueue], Queue]) -> Queue | None:
        """Promote the mirror on this node to master. `make` creates the queue around its backing queue.
        Return None if this node has no mirror of the queue."""
        replica = self.replicas.get(record.queue_id)
        if replica is None:
            return None
        replica.change(record.ring)
        assert replica.backing is not None and replica.service is not None
        queue = make(replica.backing)
        queue.marks.delivered_up_to = replica.backing.delivered_up_to
        queue.intake.begin(SeenPublishIds(replica.service.producers))
        queue.kept.trusted = replica.backing.trusted
        self._mirror(replica, queue)
        self.lead(record, queue)
        return queue

    def mark_delivered(self, queue_id: int, sequence: int) -> None:
        """Mark all messages of a copy up to `sequence` as delivered, so that a promotion redelivers them."""
        replica = self.replicas.get(queue_id)
        if replica is not None and replica.copy is not None:
            replica.copy.deliver(sequence)
        else:
            self._journal.queue(queue_id).delivered(sequence)

    def _mirror(self, replica: Replica, queue: Queue) -> None:
        assert replica.backing is not None and replica.service is not None
        queue_id = replica.queue_id
        replica.service.producers = queue.intake.producers
        queue.mirror(replica.backing, self._broker.remote, queue_id)
        self._queues[queue_id] = queue

    def _unmirror(self, replica: Replica, queue: Queue) -> None:
        assert replica.backing is not None
        replica.backing.flush_operations()
        self._last_operations[replica.queue_id] = replica.ring.received
        queue.unmirror(replica.backing.inner)
        self._forget(replica.queue_id)

    def mirror(self, record: records.Queue) -> None:
        """Apply a view in which this node is a mirror. If it was master, its queue object is detached
        already. A node that stops as the only member creates no replica: the queue waits for it and has no
        master to mirror."""
        replica = self.replicas.get(record.queue_id)
        self._queues.pop(record.queue_id, None)
        if replica is None:
            if record.ring.master != self._me:
                self._make(record)
        elif replica.view.joined_with(self._me) != record.ring.joined_with(self._me):
            self.leave(record.queue_id)
            self._make(record)
        else:
            replica.change(record.ring)
        self.touch(record.queue_id)

    def leave(self, queue_id: int) -> None:
        """Leave the ring of a queue. Its messages stay in the journal."""
        replica = self.replicas.get(queue_id)
        if replica is None:
            return
        if replica.copy is not None:
            replica.copy.forget_memory()
        elif replica.backing is not None:
            replica.backing.forget_all()
        self._forget(queue_id)

    def _forget(self, queue_id: int) -> None:
        for table in (self.replicas, self._queues, self._dirty, self._uncommitted, self._restless):
            table.pop(queue_id, None)
        self._proposed.pop(queue_id, None)

    def erased(self, queue_id: int) -> None:
        """Erase the copy of a deleted queue."""
        self.leave(queue_id)
        self._last_operations.pop(queue_id, None)
        store = self._journal.queues.get(queue_id)
        if store is not None:
            store.erase()

    def _make(self, record: records.Queue, received: int = 0) -> Replica:
        broker = self._broker
        store = self._journal.queue(record.queue_id)

        def make_backing(delivered_up_to: int, stored_counts: bool) -> BackingQueue:
            present = broker.metadata.state.queues[record.key]
            settings = queue_settings(broker.policies, present)
            return make_backing_queue(
                store, settings, broker.hot_budget, broker.log_entries.warn,
                max(store.delivered_up_to, delivered_up_to) if stored_counts else delivered_up_to,
            )  # fmt: skip

        replica = Replica(
            record.queue_id, self._me, record.ring, store, broker.hot_budget, self._options(record),
            make_backing, received,
        )  # fmt: skip
        if replica.copy is not None:
            replica.copy.lazy = queue_settings(broker.policies, record).lazy
            replica.copy.producers = store.producer_ids()
        self.replicas[record.queue_id] = replica
        self._keep_ticking()
        return replica

    # -- policies -------------------------------------------------------------------------------

    def _options(self, record: records.Queue) -> ReplicaOptions:
        options = ReplicaOptions(
            durable=record.durable,
            limits=self._limits,
            attempts=self._attempts,
            is_over=self._broker.remote.is_over,
            congested=self._congested,
            keep_surplus=partial(self._broker.rescues.keep_surplus, record.queue_id),
            on_dirty=partial(self._heard, record.queue_id),
        )
        options.paused = self._paused
        self._set(options, record)
        return options

    def apply(self, record: records.Queue) -> None:
        """Apply changed policies."""
        replica = self.replicas.get(record.queue_id)
        if replica is None:
            return
        was_automatic = replica.options.automatic
        self._set(replica.options, record)
        if replica.copy is not None:
            replica.copy.lazy = queue_settings(self._broker.policies, record).lazy
        if replica.service is not None and replica.options.automatic != was_automatic:
            replica.service.synchronise(replica.options.automatic)
        self.touch(record.queue_id)

    def _set(self, options: ReplicaOptions, record: records.Queue) -> None:
        settings = self._broker.settings
        definition = self._broker.policies.effective(record.vhost, record.name, "queues").definition
        options.automatic = definition.get("ha-sync-mode") == "automatic"
        options.redeliver_lost = definition.get("ha-redeliver") == "lost"
        batch = definition.get("ha-sync-batch-size")
        if not isinstance(batch, int) or batch <= 1:
            batch = settings.mirroring_sync_batch_size
        options.pace = SyncPace(batch, bytes_per_s=settings.mirroring_sync_max_throughput_bytes)

    def synchronise(self, queue_id: int, wanted: bool) -> bool:
        """Execute `sync_queue` or `cancel_sync_queue`; return False if this node is not the master of a
        mirrored queue."""
        replica = self.replicas.get(queue_id)
        if replica is None or replica.service is None:
            return False
        replica.service.synchronise(wanted)
        self.touch(queue_id)
        return True

    def give_up(self, queue_id: int, sequences: list[int]) -> None:
        """Let mirrors be synchronised without damaged messages of which no node has a good copy."""
        replica = self.replicas.get(queue_id)
        if replica is not None and replica.service is not None:
            replica.service.give_up(sequences)
            self.touch(queue_id)

    def pause_synchronisation(self, paused: bool) -> None:
        """Pause synchronisation while memory is short, or resume it."""
        self._paused = paused
        for queue_id, replica in self.replicas.items():
            replica.options.paused = paused
            if not paused:
                self.touch(queue_id)

    # -- other nodes ----------------------------------------------------------------------------

    def receive(self, peer: str, mail: RingBatch) -> bool:
        """Handle messages from another node; return whether a turn has work now. Messages of unknown rings
        are ignored: a member that joins later requests what it has missed."""
        for message in mail.messages:
            replica = self.replicas.get(message.queue_id)
            if replica is not None and replica.receive(peer, message):
                self._dirty[message.queue_id] = replica
        return bool(self._dirty)

    def reconnected(self, peer: str) -> None:
        """Handle a new link to a node."""
        for queue_id, replica in self.replicas.items():
            if peer in replica.view.members:
                replica.reconnected(peer)
                self._dirty[queue_id] = replica

    def relieved(self, peer: str) -> None:
        """Resume sending on a link that is no longer congested."""
        for queue_id, replica in self.replicas.items():
            if peer in replica.view.members:
                self._dirty[queue_id] = replica

    # -- turns ----------------------------------------------------------------------------------

    def touch(self, queue_id: int) -> None:
        """Mark a queue's replica as dirty."""
        replica = self.replicas.get(queue_id)
        if replica is not None:
            self._dirty[queue_id] = replica

    def _heard(self, queue_id: int, urgent: bool) -> None:
        """Schedule operations of a master: at once if urgent, else after `REMOVALS_WAIT_MS`."""
        replica = self.replicas.get(queue_id)
        if replica is None:
            return
        if urgent:
            self._dirty[queue_id] = replica
        elif replica.backing is not None:
            self._clock.at(self._clock.now_ms + REMOVALS_WAIT_MS, replica.backing.flush_now)

    @property
    def pending(self) -> bool:
        """Return whether a replica is dirty."""
        return bool(self._dirty)

    def flush_operations(self) -> bool:
        """Send the operations of dirty replicas before the disk sync; return True if a message was sent."""
        if not self._dirty:
            return False
        dirty, self._dirty = self._dirty, {}
        for queue_id, replica in dirty.items():
            self._take(replica, replica.take(self._clock.now_ms, reporting=False, idle=False))
            self._uncommitted[queue_id] = replica
        return self._post()

    def commit(self) -> None:
        """Report what this node holds after the disk sync, and confirm what is complete."""
        if not self._uncommitted:
            return
        uncommitted, self._uncommitted = self._uncommitted, {}
        now_ms = self._clock.now_ms
        for queue_id, replica in uncommitted.items():
            if self.replicas.get(queue_id) is replica:
                work = replica.committed(now_ms)
                if work is not None:
                    self._take(replica, work)
                self._restless[queue_id] = replica
        self._post()

    def _take(self, replica: Replica, work: ReplicaWork) -> None:
        for peer, message in work.sends:
            self._mail.setdefault(peer, []).append(message)
        if work.proposal is not None:
            self._proposals[replica.queue_id] = work.proposal
        if work.completed is not None:
            queue = self._queues.get(replica.queue_id)
            if queue is not None:
                queue.completed(*work.completed)
            self._pace(replica)

    def _pace(self, replica: Replica) -> None:
        """Schedule the next step of a synchronisation that waits for its pace."""
        if replica.service is None or not replica.service.sessions:
            return
        due = replica.service.next_ms()
        clock, queue_id = self._clock, replica.queue_id
        if due is not None and due > clock.now_ms and queue_id not in self._paced:
            self._paced.add(queue_id)

            def resume() -> None:
                self._paced.discard(queue_id)
                self.touch(queue_id)

            clock.at(due, resume)

    def _post(self) -> bool:
        if self._proposals:
            self._propose()
        if not self._mail:
            return False
        mail, self._mail = self._mail, {}
        for peer, messages in mail.items():
            self._send(peer, RingBatch(messages))
        return True

    def _propose(self) -> None:
        proposals, self._proposals = self._proposals, {}
        now, changes = self._clock.now_ms, []
        for queue_id, view in proposals.items():
            version, at = self._proposed.get(queue_id, (0, 0))
            if version != view.version or now - at >= PROPOSE_AGAIN_MS:
                self._proposed[queue_id] = view.version, now
                changes.append(commands.ViewChange(queue_id, view))
        if changes:
            self._broker.metadata.write(commands.ChangeViews(changes))

    # -- time -----------------------------------------------------------------------------------

    def _keep_ticking(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._clock.at(self._clock.now_ms + TICK_MS, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        if not self.replicas:
            return
        self._keep_ticking()
        restless, self._restless = self._restless, {}
        now = self._clock.now_ms
        for queue_id, replica in restless.items():
            if self.replicas.get(queue_id) is replica:
                self._take(replica, replica.take(now, reporting=False))
                if not replica.at_rest:
                    self._restless[queue_id] = replica
        self._post()
