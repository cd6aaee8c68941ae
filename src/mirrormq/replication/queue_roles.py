"""Queue roles: the object that represents a queue on this node, per epoch.

    Queue          this node is the master
    RemoteQueue    another node is or becomes the master: requests of clients wait for it
    DownQueue      no node is master, nor can be before a certain node returns

The metadata decides the role. When another node becomes master, a new object takes the queue's name.
Consumers of this node's channels move to it, and so do publishes that are not confirmed (`remote.handover`).
A queue whose master stays keeps its object, also when its mirrors change.

A restarted node finds itself in views of an earlier incarnation. It must not be master or mirror of a
mirrored queue until a view names its present incarnation. Its memory is lost, and the other members rely on
that memory. A queue that only this node holds need not wait for another node, unless a former member has a
copy.

After a rescue (`copy_records.Rescue`) the new master's copy may be older than what consumers have received,
so all its messages count as delivered. Messages that only another node's disk holds become orphans of that
node.
"""

from __future__ import annotations

from typing import cast

from mirrormq.metadata import records
from mirrormq.metadata.ring_view import View
from mirrormq.queues.claims import NOTHING, Claim
from mirrormq.queues.confirm_tracker import WaitingConfirms
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.kept_deliveries import GIVEN_BACK
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import publish_ids_in
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Publisher, QueueInterface, Subscriber
from mirrormq.remote.down_queue import DownQueue
from mirrormq.remote.handover import Handover, hand_over
from mirrormq.remote.pending_publishes import PendingBatch
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.replication.queue_factory import make_queue, make_queue_of, queue_settings
from mirrormq.replication.replica import UnconfirmedOperations
from mirrormq.replication.replication_host import RoleVhost
from mirrormq.replication.ring_operations import AppendOperation
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.wire.content import properties_of

LEFTOVER_MS = 60_000
"""Time for which a node keeps its copy of a queue after leaving the ring. A node that was lost for a moment
rejoins within seconds and then needs only the difference."""

CONSUMERS_RETURN_MS = 10_000
"""Time for which a promoted master waits for the consumers of an auto-delete queue before it considers them
lost. Consumers of running nodes move within moments; an unreachable node is given up within half of this
time."""


class QueueRoles:
    """Roles of this node for the queues of one vhost."""

    def __init__(self, vhost: RoleVhost) -> None:
        self._vhost = vhost
        self._broker = vhost.broker
        self._me = vhost.broker.settings.name
        self._ids: dict[str, int] = {}
        """Id of the queue that has a name now."""

    # -- following the metadata -----------------------------------------------------------------

    def follow(self, record: records.Queue) -> None:
        """Apply a queue record: the queue is declared, or its ring has changed."""
        if self._ids.get(record.name, record.queue_id) != record.queue_id:
            self.remove(record.name)
        self._ids[record.name] = record.queue_id
        before = self._vhost.queues.get(record.name)
        if self._is_master(record):
            if isinstance(before, Queue):
                self._stay(record, before)
            else:
                self._take_over(record, before)
        else:
            self._follow_master(record, before)

    def remove(self, name: str) -> None:
        """Remove a deleted queue."""
        queue_id = self._ids.pop(name, 0)
        queue = self._vhost.queues.pop(name, None)
        if queue is not None:
            left: list[QueueConsumer] = []
            queue.erase(left.append)
            for consumer in sorted(left, key=lambda one: one.describe().tag):
                consumer.cancelled()
        self._broker.remote.stop_serving(queue_id)
        self._broker.replica_manager.erased(queue_id)

    # -- decision -------------------------------------------------------------------------------

    def _is_master(self, record: records.Queue) -> bool:
        view = record.ring
        if not record.node:  # declared by a version without queue placement
            return True
        if record.waits_for or view.master != self._me:
            return False
        # A former member may hold more than this disk: then the journal is reported first (`promotion`).
        return (len(view.members) == 1 and not record.former) or self._takes_part(view)

    def _takes_part(self, view: View) -> bool:
        """Return whether the present incarnation of this node is a member of the ring."""
        return self._me in view.members and view.incarnation_of(self._me) in (0, self._broker.incarnation)

    # -- master ---------------------------------------------------------------------------------

    def _stay(self, record: records.Queue, queue: Queue) -> None:
        served = self._broker.remote.served_epoch(record.queue_id)
        if served != record.ring.epoch:
            self._serve(record, queue)
        self._broker.replica_manager.lead(record, queue)
        if record.auto_delete and queue.consumers.all:
            self._vhost.consumed(queue)

    def _take_over(self, record: records.Queue, before: QueueInterface | None) -> None:
        broker, vhost = self._broker, self._vhost
        if record.rescue is not None and record.rescue.epoch == record.ring.epoch:
            broker.replica_manager.mark_delivered(record.queue_id, record.rescue.highest_sequence)
        queue = broker.replica_manager.promote(record, lambda backing: make_queue_of(vhost, record, backing))
        if queue is None:
            queue = make_queue(vhost, record)
            broker.replica_manager.lead(record, queue)
        queue.owner = vhost.owner_of(record.name)
        broker.range_requests.leases.begin(record, queue)
        self._name(record, queue)
        keeping = queue.settings.redeliver_lost
        if keeping and before is not None:
            queue.kept.await_claims(self._holders())
        self._serve(record, queue)
        if before is not None:
            with vhost.dead_letters_later():  # they must not overtake publishes of the handover
                handover = cast(RemoteQueue | DownQueue, before).detach(keeping=keeping)
                hand_over(handover, queue, broker.remote.producer)
        if record.consumed and isinstance(before, RemoteQueue):
            self._expect_consumers(queue)

    def _holders(self) -> set[str]:
        """Return the nodes, with incarnations, whose clients may hold messages from an earlier master."""
        remote = self._broker.remote
        nodes = self._broker.metadata.state.nodes.values()
        living = {
            f"{node.name}#{node.incarnation}" for node in nodes if node.running and node.name != self._me
        }
        return {holder for holder in living if not remote.is_over(holder)} | {remote.producer}

    def _expect_consumers(self, queue: Queue) -> None:
        """Delete an auto-delete queue if no consumer moves to the new master in time: all were lost with the
        old one."""

        def delete_if_unused() -> None:
            if not queue.deleted and not queue.consumers.all:
                self._vhost.unused(queue)

        self._broker.clock.at(self._broker.clock.now_ms + CONSUMERS_RETURN_MS, delete_if_unused)

    def _serve(self, record: records.Queue, queue: Queue) -> None:
        """Serve the queue to other nodes, with sequences of the epoch that this incarnation uses.

        A restarted node that is alone in its ring serves before its next epoch is granted. It uses the
        sequences of that next epoch at once. A copy on the other side of a partition may use those of the
        last epoch for other messages, and this node may have set its own messages aside.
        """
        backing, ring = queue.backing, record.ring
        epoch = ring.epoch if self._takes_part(ring) else ring.epoch + 1
        backing.next_sequence = max(backing.next_sequence, first_sequence(epoch))
        self._broker.remote.serve(record.queue_id, record.ring.epoch, queue)

    # -- mirror or no member --------------------------------------------------------------------

    def _follow_master(self, record: records.Queue, before: QueueInterface | None) -> None:
        if not self._is_same(record, before):
            self._replace(record, before)
        rings = self._broker.replica_manager
        if record.waits_for:
            self._broker.copy_reports.add(record)
        elif record.rescue is not None:
            self._broker.rescues.follow(record)
        if self._takes_part(record.ring):
            rings.mirror(record)
        else:
            rings.leave(record.queue_id)
            if record.queue_id in self._broker.journal.queues:
                self._forget_later(record)

    def _is_same(self, record: records.Queue, before: QueueInterface | None) -> bool:
        """Return whether the present object already stands for the epoch and master of this record."""
        view = record.ring
        if record.waits_for:
            return isinstance(before, DownQueue) and before.home == _home(record)
        if not isinstance(before, RemoteQueue):
            return False
        stood_for = (before.place.epoch, before.stream.peer, before.stream.incarnation)
        return stood_for == (view.epoch, view.master, self._incarnation_of_master(view))

    def _incarnation_of_master(self, view: View) -> int:
        node = self._broker.metadata.state.nodes.get(view.master)
        return view.incarnation_of(view.master) or (node.incarnation if node is not None else 0)

    def _replace(self, record: records.Queue, before: QueueInterface | None) -> None:
        handover = None
        successor = self._face(record)
        keeping = successor.settings.redeliver_lost
        if isinstance(before, Queue):
            handover = self._depose(record, before, keeping=keeping)
            before.successor = successor
        elif before is not None:
            handover = cast(RemoteQueue | DownQueue, before).detach(keeping=keeping)
        elif keeping:
            handover = Handover(claim=NOTHING)
        self._name(record, successor)
        if handover is not None:
            hand_over(handover, successor, self._broker.remote.producer)

    def _face(self, record: records.Queue) -> RemoteQueue | DownQueue:
        settings, view = queue_settings(self._broker.policies, record), record.ring
        if record.waits_for:
            mirrored = len(record.ring.members) > 1
            return DownQueue(record.vhost, record.name, settings, _home(record), mirrored=mirrored)
        place = QueueRef(record.queue_id, view.epoch, record.vhost, record.name)
        return self._broker.remote.remote_queue(
            place, view.master, self._incarnation_of_master(view), settings
        )

    def _name(self, record: records.Queue, queue: QueueInterface) -> None:
        self._vhost.queues[record.name] = queue
        self._vhost.router.invalidate()

    # -- former master --------------------------------------------------------------------------

    def _depose(self, record: records.Queue, queue: Queue, *, keeping: bool) -> Handover:
        """Detach the queue of a former master. Unconfirmed publishes of this node's clients are published
        again to the new master, under their old numbers."""
        broker = self._broker
        replica = broker.replica_manager.replicas.get(record.queue_id)
        producer = broker.remote.producer
        unsettled = replica.unsettled(producer) if replica is not None else []
        claim = self._claim(record, queue) if keeping else None
        delivered_up_to = queue.marks.delivered_up_to
        if keeping and replica is not None and replica.backing is not None and replica.backing.gated:
            marks = replica.backing.delivered_by
            delivered_up_to = max(marks.get(GIVEN_BACK, 0), marks.get(producer, 0))
        consumers, waiting = queue.detach()
        if replica is None:
            queue.backing.forget_all()
        broker.remote.stop_serving(record.queue_id)
        batches = unsettled_batches(unsettled, waiting, producer)
        requests = [deferred.ask for deferred in queue.kept.take_deferred()]
        return Handover(producer, _local(consumers), batches, requests, delivered_up_to, claim=claim)

    def _claim(self, record: records.Queue, queue: Queue) -> Claim:
        """Return the sequences that clients of this node hold, and the removals that the next master does not
        know. Consumers with `cancel_on_failover` lose the messages they hold."""
        replica = self._broker.replica_manager.replicas.get(record.queue_id)
        removed = replica.unsettled_removals() if replica is not None else []
        held: list[int] = []
        lost: list[int] = []
        for message, consumer in self._broker.deliveries_of(queue):
            cancelled = consumer is not None and consumer.cancel_on_failover
            (lost if cancelled else held).append(message.sequence)
        return Claim(queue.kept.hand_over(held), tuple(removed), tuple(lost))

    def _forget_later(self, record: records.Queue) -> None:
        """Erase a copy that no ring needs after `LEFTOVER_MS`, unless the node has become a member again."""
        clock, queue_id = self._broker.clock, record.queue_id

        def forget() -> None:
            present = self._broker.metadata.state.queues.get(record.key)
            store = self._broker.journal.queues.get(queue_id)
            if present is None or present.queue_id != queue_id or store is None:
                return
            if not present.has_copy(self._me) and self._me not in present.waits_for:
                store.erase()

        clock.at(clock.now_ms + LEFTOVER_MS, forget)


def _home(record: records.Queue) -> str:
    """Return the node that clients are to wait for."""
    return record.ring.master if record.ring.master in record.waits_for else record.waits_for[0]


def _local(consumers: list[QueueConsumer]) -> list[Subscriber]:
    """Return the consumers of this node's channels; other nodes move their own consumers."""
    return [cast(Subscriber, consumer) for consumer in consumers if hasattr(consumer, "cancel_on_failover")]


def unsettled_batches(
    unsettled: list[UnconfirmedOperations], waiting: list[WaitingConfirms], producer: str
) -> list[PendingBatch]:
    """Return the unconfirmed publishes that must be published again, with their numbers and waiting
    publishers.

    Confirm publishes that a publisher waits for but that are not among the unsettled operations: every member
    has them on disk.
    """
    mine = [one for one in waiting if one.origin.producer == producer]
    waits = {
        number: (one.publisher, one.first + number - one.origin.first_number)
        for one in mine
        if not one.messages
        for number in range(one.origin.first_number, one.origin.first_number + one.last - one.first + 1)
    }
    batches = [
        PendingBatch(one.origin.first_number, list(one.messages), one.publisher, one.first)
        for one in mine
        if one.messages
    ]
    for one in unsettled:
        run: list[Message] = []
        last: tuple[Publisher | None, int] = (None, 0)
        for number, message in enumerate(_messages(one.append), one.append.first_number):
            who = waits.pop(number, (None, 0))
            follows = bool(run) and who[0] is last[0] and (who[0] is None or who[1] == last[1] + len(run))
            if run and not follows:
                batches.append(PendingBatch(number - len(run), run, *last))
                run = []
            if who[0] is not None or one.incomplete:
                last = last if follows else who
                run.append(message)
        if run:
            batches.append(
                PendingBatch(one.append.first_number + len(one.append.contents) - len(run), run, *last)
            )
    for publisher, at_publisher in waits.values():
        publisher.confirmed(at_publisher, at_publisher)
    return sorted(batches, key=lambda batch: batch.first)


def _messages(append: AppendOperation) -> list[Message]:
    messages = [
        Message(make_envelope(publish, properties_of(frames)), frames, append.expires_at)
        for publish, frames in zip(append.payloads(), append.contents, strict=True)
    ]
    if append.producer_ids:
        for message in messages:
            message.envelope.identify(publish_ids_in(message.properties))
    return messages
