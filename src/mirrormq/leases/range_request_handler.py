"""Requests about ranges and leases: from the client's message to the direct reply.

    a channel of this node     `asked`: checks permissions, finds the replying node, sends the reply
    a queue of this node       `handle_range_request`: replies, for clients of this node or of any other

The master processes most requests, wherever it is. A read requires only a complete copy: a mirror on the
client's node serves it from its own journal if it has all messages of the range. This spreads the readers
of one queue over its nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed
from mirrormq.leases.job_reports import JobReports
from mirrormq.leases.lease_host import LeaseHost, RequestChannel, RequestConnection, RequestVhost
from mirrormq.leases.lease_manager import LeaseManager
from mirrormq.leases.queue_backups import Place, QueueBackups
from mirrormq.leases.range_reads import RangeReads
from mirrormq.leases.range_sources import RangeSource, master_source, mirror_source
from mirrormq.leases.sink_batches import SinkBatches
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.queue import Queue
from mirrormq.ranges import backup_protocol, error_reasons, range_limits, range_protocol
from mirrormq.ranges.range_request import (
    NUMBER_MAX,
    Answered,
    RangeReply,
    RangeRequest,
    Refused,
    RequestValues,
    reply,
)
from mirrormq.remote.peer_session import PeerSession
from mirrormq.wire.content import body_of, build_frames, properties_of
from mirrormq.wire.fields import Table, decode_table, encode_table, table_of
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.queues.queue_interface import QueueInterface

ADMINISTRATOR = "administrator"


class PendingReply:
    """One request of one client, until its reply."""

    def __init__(
        self, broker: LeaseHost, channel: RequestChannel, reply_name: str, correlation_id: str | None
    ) -> None:
        self._broker = broker
        self._channel = channel
        self._name = reply_name
        self._correlation_id = correlation_id

    def answered(self, given: RangeReply) -> None:
        """Send a successful reply."""
        self._send(range_protocol.OK, decode_table(given.headers, 0)[0], given.body)

    def refused(self, error: AmqpError) -> None:
        """Send an error as reply; the channel stays open."""
        reason = error.reason or error_reasons.BY_CODE.get(error.code, error_reasons.INTERNAL_ERROR)
        headers = table_of({"code": error.code, "text": error.text, "reason": reason})
        self._send(range_protocol.ERROR, headers, b"")

    def _send(self, kind: str, headers: Table, body: bytes) -> None:
        channel = self._channel
        payload = encode_properties(
            BasicProperties(headers=headers, correlation_id=self._correlation_id, type_=kind)
        )
        frames = build_frames(channel.number, payload, body, channel.connection.frame_max)
        envelope = make_envelope(encode_basic_publish("", self._name), payload)
        self._broker.deliver_reply(self._name, envelope, [frames])


class RangeRequestHandler:
    """Handler of all requests on this node."""

    def __init__(self, broker: LeaseHost, place: Place) -> None:
        self._broker = broker
        self.backups = QueueBackups(broker, place)
        self.reads = RangeReads(broker)
        self.leases = LeaseManager(broker)
        self.jobs = JobReports(broker)
        self.batches = SinkBatches(broker)
        self._reading: dict[RequestConnection, int] = {}
        """Number of unanswered reads of each client."""

    # -- clients --------------------------------------------------------------------------------

    def asked(self, channel: RequestChannel, contents: list[bytes]) -> None:
        """Process requests of a client of this node."""
        for content in contents:
            properties = decode_properties(properties_of(content), 0)
            name = properties.reply_to or ""
            if not name.startswith(range_protocol.REPLY_QUEUE + "."):
                raise PreconditionFailed(
                    f"a request about ranges needs the reply_to '{range_protocol.REPLY_QUEUE}'"
                )
            pending = PendingReply(self._broker, channel, name, properties.correlation_id)
            headers = encode_table(properties.headers or {})
            range_request = RangeRequest(headers, body_of(content), channel.user.name)
            try:
                self._dispatch(channel, range_request, pending)
            except AmqpError as error:
                pending.refused(error)

    def _dispatch(self, channel: RequestChannel, range_request: RangeRequest, pending: PendingReply) -> None:
        values = range_request.values()
        ask = values.text("ask")
        if ask in backup_protocol.ASKS:
            self._dispatch_backup(channel, range_request, values, pending)
            return
        if ask not in range_protocol.ASKS:
            raise PreconditionFailed(f"unknown request '{ask}'; known are {', '.join(range_protocol.ASKS)}")
        if ask == range_protocol.LEASES and not values.has("queue"):
            pending.answered(self.leases.listed(channel))
            return
        if ask == range_protocol.REPORT:
            self.jobs.reported(channel, values, pending.answered)
            return
        if ask == range_protocol.BATCH:
            self.batches.begin(channel, values, pending.answered, pending.refused)
            return
        if ask == range_protocol.END:
            self.batches.end(channel, values, pending.answered)
            return
        if ask == range_protocol.QUEUES:
            pending.answered(self._queues(channel))
            return
        name, vhost = values.text("queue"), channel.vhost
        if values.has("vhost"):
            vhost = self._vhost_of_administrator(channel, values)
        else:
            channel.check_permission("queue", name, "read")
        queue = vhost.accessible_queue(name, channel.connection)
        if ask == range_protocol.READ:
            self._read(channel, vhost, queue, range_request, values, pending)
        else:
            queue.handle_range_request(range_request, pending.answered, pending.refused, channel.connection)

    def _dispatch_backup(
        self,
        channel: RequestChannel,
        range_request: RangeRequest,
        values: RequestValues,
        pending: PendingReply,
    ) -> None:
        _check_administrator(self._broker, channel)
        if values.has("queue"):
            vhost = self._vhost_of_administrator(channel, values)
            queue = vhost.accessible_queue(values.text("queue"), channel.connection)
            queue.handle_range_request(range_request, pending.answered, pending.refused, channel.connection)
        elif values.text("ask") == backup_protocol.BACKUP:
            pending.answered(self.backups.metadata())
        else:
            body, user = range_request.body, range_request.user
            self.backups.restore_metadata(values, body, user, pending.answered)

    def _vhost_of_administrator(self, channel: RequestChannel, values: RequestValues) -> RequestVhost:
        """Return the vhost that a request names. Administrators need no permission there: they may grant
        themselves any."""
        _check_administrator(self._broker, channel)
        name = values.text("vhost")
        if name not in self._broker.vhosts:
            raise NotFound(f"no vhost '{name}'")
        return self._broker.vhosts[name]

    def _queues(self, channel: RequestChannel) -> RangeReply:
        """Return the queues that the client may read, without exclusive ones."""
        vhost, may = channel.vhost.name, self._broker.permissions.check
        queues = self._broker.metadata.state.queues_of(vhost).values()
        names = [
            queue.name
            for queue in queues
            if not queue.exclusive and may(channel.user.name, vhost, queue.name, "read")
        ]
        return reply(*range_protocol.queues_answer(self._broker.settings.name, sorted(names)))

    def _read(
        self,
        channel: RequestChannel,
        vhost: RequestVhost,
        queue: QueueInterface,
        range_request: RangeRequest,
        values: RequestValues,
        pending: PendingReply,
    ) -> None:
        connection = channel.connection
        count = self._reading.get(connection, 0)
        if count >= range_limits.READS_IN_FLIGHT_MAX:
            most = range_limits.READS_IN_FLIGHT_MAX
            raise PreconditionFailed(f"a connection may have {most} reads in progress")
        self._reading[connection] = count + 1

        def answered(given: RangeReply) -> None:
            self._read_is_over(connection)
            pending.answered(given)

        def refused(error: AmqpError) -> None:
            self._read_is_over(connection)
            pending.refused(error)

        try:
            source = self._mirror(vhost, queue, values)
            if source is None:
                queue.handle_range_request(range_request, answered, refused, connection)
            else:
                self.reads.begin(connection, source, values, answered, refused, range_limits.READ_BYTES_MAX)
        except AmqpError as error:
            refused(error)

    def _read_is_over(self, connection: RequestConnection) -> None:
        left = self._reading.get(connection, 0) - 1
        if left > 0:
            self._reading[connection] = left
        else:
            self._reading.pop(connection, None)

    def _mirror(
        self, vhost: RequestVhost, queue: QueueInterface, values: RequestValues
    ) -> RangeSource | None:
        """Return the complete copy of a queue on this node, if the node is a mirror and has the whole
        requested range."""
        record = vhost.find_queue(queue.name)
        replica = None if record is None else self._broker.replica_manager.replicas.get(record.queue_id)
        if record is None or replica is None or replica.copy is None or isinstance(queue, Queue):
            return None
        if values.number("id", record.queue_id) != record.queue_id:
            return None
        copy, held, to = replica.copy, replica, values.number("to")

        def complete() -> bool:
            return held.copy is copy and held.synchronised

        if not complete() or to > copy.known_up_to + 1:
            return None
        return mirror_source(copy, self._broker.journal.queue(record.queue_id), complete)

    def disconnected(self, connection: RequestConnection) -> None:
        """Discard the reads of a client that is gone."""
        self._reading.pop(connection, None)
        self.reads.forget(connection)

    # -- queues of this node --------------------------------------------------------------------

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Process a request about a queue whose master is this node."""
        try:
            self._process(queue, range_request, answered, refused, reader)
        except AmqpError as error:
            refused(error)

    def _process(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        record = self._broker.metadata.state.queues.get((queue.vhost, queue.name))
        if record is None or queue.deleted:
            raise NotFound(f"no queue '{queue.name}' in vhost '{queue.vhost}'")
        values = range_request.values()
        if values.number("id", record.queue_id) != record.queue_id:
            raise NotFound(f"queue '{queue.name}' in vhost '{queue.vhost}' was deleted and declared again")
        ask = values.text("ask")
        store = self._broker.journal.queue(record.queue_id)
        if ask == range_protocol.READ:
            most = (
                range_limits.READ_BYTES_PASSED_ON_MAX
                if isinstance(reader, PeerSession)
                else range_limits.READ_BYTES_MAX
            )
            self.reads.begin(reader, master_source(queue, store), values, answered, refused, most)
        elif ask == range_protocol.EXTENT:
            answered(reply(range_protocol.extent_answer(self._extent(queue, record.queue_id))))
        elif ask == backup_protocol.BACKUP:
            answered(self.backups.cut(queue, record, self._extent(queue, record.queue_id)))
        elif ask == backup_protocol.RESTORE:
            body, user = range_request.body, range_request.user
            self.backups.restore(queue, record, values, body, user, answered, refused)
        else:
            self.leases.asked(record, queue, range_request, answered, refused)

    def _extent(self, queue: Queue, queue_id: int) -> range_protocol.QueueExtent:
        backing = queue.backing
        state = self._broker.metadata.state
        view = state.queues[state.queue_keys[queue_id]].ring
        held = self._broker.journal.queue(queue_id).between(0, NUMBER_MAX, 1)
        held += [message.sequence for message in backing.peek_unstored(0, NUMBER_MAX, 1)]
        return range_protocol.QueueExtent(
            min(held, default=backing.next_sequence), backing.next_sequence, backing.ready_count,
            backing.ready_bytes, queue.settings.durable, queue_id, self._broker.settings.name,
            tuple(name for name in view.members if name in view.in_sync),
        )  # fmt: skip


def _check_administrator(broker: LeaseHost, channel: RequestChannel) -> None:
    user = broker.metadata.state.users.get(channel.user.name)
    if user is None or ADMINISTRATOR not in user.tags:
        raise AccessRefused(f"user '{channel.user.name}' needs the tag '{ADMINISTRATOR}'")
