"""Backup and restore on a node: what `mirrormq backup` reads beside messages, and what `restore` writes.

A backup reads messages with range reads. It asks the master of each queue for one consistent state: the next
sequence, the publish ids and the leases of one moment.

A restore writes into an empty cluster in three steps, so that nothing disturbs the messages:

    objects     vhosts, policies, exchanges, queues; no binding yet, so no publish is routed here
    messages    batches, publish ids and leases of one queue after the other
    access      bindings, parameters (shovels start now), permissions, and users last

Restored messages bypass length limits and deduplication: they were in the queue. Their order, properties and
bodies stay, their sequences do not, because a sequence is never used twice and belongs to an epoch.

The global parameter `MARKER` names the backup between the first step and the last. A cluster with queues
accepts a restore only if it has begun that very restore before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec

from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.leases.lease_host import LeaseHost
from mirrormq.metadata import commands as c
from mirrormq.metadata import records
from mirrormq.metadata.cluster_name import INTERNAL
from mirrormq.metadata.snapshots import Snapshot
from mirrormq.metadata.snapshots import decode as decode_snapshot
from mirrormq.queues import lease_operations
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.publish_ids import PREFIX, publish_ids_only
from mirrormq.queues.queue import Queue
from mirrormq.ranges import backup_protocol, error_reasons, range_protocol
from mirrormq.ranges.backup_protocol import LeaseCut, QueueCut, TakeCut
from mirrormq.ranges.range_batch import BatchEnvelope, BatchError, BatchRow, RangeBatch
from mirrormq.ranges.range_request import Answered, RangeReply, Refused, RequestValues, reply
from mirrormq.sequences.spans import Span, count_of, joined, pack, spans_of, unpack
from mirrormq.wire.content import build_frames
from mirrormq.wire.frames import FRAME_MAX_BYTES
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

MARKER = "mirrormq_restore"
"""Global parameter with the id of the backup that is being restored."""

PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))

Place = Callable[[records.Queue], records.Queue]
"""Function that returns the record of a queue with a new id, master and mirrors."""


class QueueBackups:
    """Backup and restore requests of one node."""

    def __init__(self, broker: LeaseHost, place: Place) -> None:
        self._broker = broker
        self._place = place

    # -- metadata -------------------------------------------------------------------------------

    def metadata(self) -> RangeReply:
        """Return the metadata snapshot."""
        return reply({}, self._broker.metadata.state.snapshot())

    def restore_metadata(self, values: RequestValues, body: bytes, user: str, answered: Answered) -> None:
        """Write a part of a snapshot as metadata commands, and reply when this node has applied them."""
        try:
            snapshot = decode_snapshot(body)
        except msgspec.DecodeError as error:
            raise PreconditionFailed(f"the metadata of the backup cannot be read: {error}") from None
        backup, part = values.text("backup"), values.text("part")
        self._check_empty(backup)
        if part == backup_protocol.OBJECTS:
            wanted = [
                c.PutGlobalParameter(records.GlobalParameter(MARKER, backup)),
                *_objects(snapshot),
            ]
            queues = [queue for queue in snapshot.queues if not queue.exclusive]
        else:
            wanted, queues = [*_access(snapshot), c.DeleteGlobalParameter(MARKER)], []
        self._write(wanted, user, lambda: self._declare(queues, user, len(wanted) + len(queues), answered))

    def _check_empty(self, backup: str) -> None:
        state = self._broker.metadata.state
        begun = state.global_parameters.get(MARKER)
        if begun is not None and begun.value == backup:
            return
        if begun is not None:
            raise PreconditionFailed(
                f"this cluster has an unfinished restore of another backup ({begun.value}): finish that one,"
                " or start with an empty cluster"
            )
        if state.queues:
            raise PreconditionFailed(
                f"this cluster has {len(state.queues)} queues; restore into a cluster without queues"
            )

    def _declare(self, queues: list[records.Queue], user: str, count: int, answered: Answered) -> None:
        """Declare the queues once the policies that place them apply."""
        known = self._broker.metadata.state.queues
        absent = [queue for queue in queues if queue.key not in known]
        done = reply(range_protocol.counted_answer(count))
        self._write([c.PutQueue(self._place(queue)) for queue in absent], user, lambda: answered(done))

    def _write(self, wanted: list[c.Command], user: str, then: Callable[[], object]) -> None:
        if not wanted:
            then()
            return
        metadata = self._broker.metadata
        with metadata.together():
            for command in wanted[:-1]:
                metadata.write(command)
            self._broker.write(wanted[-1], user, then)

    # -- queues on their master -----------------------------------------------------------------

    def cut(self, queue: Queue, record: records.Queue, extent: range_protocol.QueueExtent) -> RangeReply:
        """Return extent, publish ids and leases of one moment."""
        leases = self._broker.metadata.state.leases_of(record.queue_id)
        settled = joined([span for lease in leases for span in unpack(lease.settled)])
        cut = QueueCut(
            publish_ids_only(queue.intake.producers),
            [_lease_cut(lease) for lease in leases if not lease.ended],
            pack(settled),
        )
        return reply(range_protocol.extent_answer(extent), backup_protocol.encode(cut))

    def restore(
        self, queue: Queue, record: records.Queue, values: RequestValues, body: bytes, user: str,
        answered: Answered, refused: Refused,
    ) -> None:  # fmt: skip
        """Restore a part of a queue: messages, publish ids or a lease."""
        part = values.text("part")
        try:
            if part == backup_protocol.MESSAGES:
                self._restore_messages(queue, values.number("held"), RangeBatch(body), answered)
            elif part == backup_protocol.PRODUCERS:
                self._restore_producers(queue, backup_protocol.decode_producers(body), answered)
            elif part == backup_protocol.LEASE:
                lease = backup_protocol.decode_lease(body)
                LeaseRestore(self._broker, queue, record, lease, user, answered, refused).resume()
            else:
                raise PreconditionFailed(f"unknown part '{part}' of a restore")
        except (BatchError, msgspec.DecodeError) as error:
            raise PreconditionFailed(f"the body of the restore request is wrong: {error}") from None

    def _restore_messages(self, queue: Queue, held: int, batch: RangeBatch, answered: Answered) -> None:
        backing = queue.backing
        found = backing.ready_count + backing.unacked_count
        if found != held:
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{queue.vhost}' has {found} messages, not {held}",
                reason=error_reasons.OTHER_MESSAGES,
            )
        delivered_up_to = 0
        for envelope, rows in groupby(batch, key=lambda row: row.envelope):
            for redelivered, messages in _runs(envelope, rows):
                queue.intake.restore(messages)
                if redelivered:
                    delivered_up_to = messages[-1].sequence
        if delivered_up_to:
            lease_operations.leased_is_delivered(queue, delivered_up_to)
        done = reply(range_protocol.counted_answer(len(batch)))
        lease_operations.when_safe(queue, lambda: _reply(answered, done))

    def _restore_producers(self, queue: Queue, producers: dict[str, int], answered: Answered) -> None:
        """Raise publish ids with one message per producer that is removed again.

        Ring and journal record a publish id only together with its message. The messages are leased at once,
        so no consumer receives them, and removed when they are safe: the journal writes the publish ids
        ahead of the removal."""
        markers: list[int] = []
        publish = encode_basic_publish("", queue.name)
        for name, number in producers.items():
            if name.startswith(PREFIX) and number > queue.intake.producers.get(name, -1):
                envelope = make_envelope(publish, PERSISTENT)
                envelope.identify((name, number))
                marker = Message(envelope, build_frames(1, PERSISTENT, b"", 0))
                queue.intake.restore([marker])
                markers.append(marker.sequence)
        spans = spans_of(markers)
        queue.backing.lease_exact(spans)
        done = reply(range_protocol.counted_answer(len(markers)))

        def remove() -> None:
            if not queue.deleted:
                queue.backing.settle(spans)
                if queue.settings.durable:
                    self._broker.journal.want_sync()
                lease_operations.when_safe(queue, lambda: _reply(answered, done))

        lease_operations.when_safe(queue, remove)


class LeaseRestore:
    """Restore of one lease: its takes become metadata one after the other, as if a reader had taken them."""

    def __init__(
        self, broker: LeaseHost, queue: Queue, record: records.Queue, lease: LeaseCut, user: str,
        answered: Answered, refused: Refused,
    ) -> None:  # fmt: skip
        self._broker = broker
        self._queue = queue
        self._record = record
        self._lease = lease
        self._user = user
        self._answered = answered
        self._refused = refused
        takes = list(lease.takes)
        if not takes or takes[-1].number < lease.number:
            takes.append(TakeCut(lease.number, b"", 0))  # Reserves the numbers of settled takes.
        self._takes = takes
        self._count = 0

    def resume(self) -> None:
        """Restore the next take that the metadata does not have, or reply."""
        lease = self._broker.metadata.state.leases.get((self._record.queue_id, self._lease.name))
        known = 0 if lease is None else lease.number
        while self._takes and self._takes[0].number <= known:
            self._count += count_of(unpack(self._takes.pop(0).spans))
        if not self._takes:
            self._answered(reply(range_protocol.counted_answer(self._count)))
            return
        take = self._takes[0]
        spans = self._queue.backing.lease_exact(unpack(take.spans))
        lease_operations.when_safe(self._queue, lambda: self._propose(take, spans))

    def _propose(self, take: TakeCut, spans: list[Span]) -> None:
        broker, lease = self._broker, self._lease
        record = broker.metadata.state.queues.get(self._record.key)
        command = c.TakeMessages(
            self._record.queue_id,
            0 if record is None else record.ring.epoch,
            broker.settings.name,
            broker.incarnation,
            lease.name,
            records.LeaseTake(take.number, pack(spans), count_of(spans), take.size_bytes),
            lease.user,
            lease.idle_ms,
        )
        broker.write(command, self._user, lambda: self._proposed(take, spans))

    def _proposed(self, take: TakeCut, spans: list[Span]) -> None:
        lease = self._broker.metadata.state.leases.get((self._record.queue_id, self._lease.name))
        if lease is not None and lease.number >= take.number:
            self.resume()
            return
        if not self._queue.deleted:
            lease_operations.return_leased(self._queue, spans)
        self._refused(
            NotFound("the queue has another master; repeat the request", reason=error_reasons.TRY_AGAIN)
        )


def _reply(answered: Answered, done: RangeReply) -> None:
    answered(done)


def _objects(snapshot: Snapshot) -> Iterator[c.Command]:
    for vhost in snapshot.vhosts:
        yield c.PutVhost(vhost)
    for policy in snapshot.policies:
        yield c.PutPolicy(policy)
    for limits in snapshot.operator_policies:
        yield c.PutOperatorPolicy(limits)
    for exchange in snapshot.exchanges:
        if exchange.name:
            yield c.PutExchange(exchange)


def _access(snapshot: Snapshot) -> Iterator[c.Command]:
    exclusive = {queue.key for queue in snapshot.queues if queue.exclusive}
    for binding in snapshot.bindings:
        if binding.destination_kind != "queue" or (binding.vhost, binding.destination) not in exclusive:
            yield c.PutBinding(binding)
    for producer in snapshot.producers:
        for digest in producer.digests:
            yield c.BeginBatch(msgspec.structs.replace(producer, digests=(digest,)))
    for parameter in snapshot.parameters:
        yield c.PutParameter(parameter)
    for name in snapshot.global_parameters:
        if name.name != MARKER and name.name not in INTERNAL:
            yield c.PutGlobalParameter(name)
    for user in snapshot.users:
        yield c.PutUser(user)
    for permission in snapshot.permissions:
        yield c.PutPermission(permission)
    for topic in snapshot.topic_permissions:
        yield c.PutTopicPermission(topic)


def _lease_cut(lease: records.Lease) -> LeaseCut:
    takes = [TakeCut(take.number, take.spans, take.size_bytes) for take in lease.takes]
    return LeaseCut(lease.name, lease.user, lease.number, lease.idle_ms, takes)


def _runs(envelope: BatchEnvelope, rows: Iterable[BatchRow]) -> Iterator[tuple[bool, list[Message]]]:
    """Yield messages that share an envelope, in runs of equal redelivery."""
    shared = make_envelope(
        encode_basic_publish(
            envelope.exchange.decode("utf-8", "surrogateescape"),
            envelope.routing_key.decode("utf-8", "surrogateescape"),
        ),
        envelope.properties,
    )
    for redelivered, run in groupby(rows, key=lambda row: row.redelivered):
        yield redelivered, [_restored(shared, envelope.properties, row) for row in run]


def _restored(envelope: Envelope, properties: bytes, row: BatchRow) -> Message:
    """Return a message with the ingestion time of the backup."""
    message = Message(envelope, build_frames(1, properties, row.body, FRAME_MAX_BYTES))
    message.ingested_ms = row.ingested_ms
    return message
