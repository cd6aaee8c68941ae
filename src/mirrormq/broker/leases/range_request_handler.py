"""Questions about ranges and leases: from the message that asks to the direct reply that answers.

    a channel of this node     `asked`: checks rights, finds who can answer, sends the answer to the client
    a queue of this node       `handle_range_request`: answers, for clients of this node or of any other

Most is the master's business, wherever it is. A read needs only a complete copy, so a mirror on the client's
node answers it from its own journal if it has come as far as the range goes; that is what spreads the
readers of one queue over its nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import direct_reply_to
from mirrormq.broker.leases.job_reports import JobReports
from mirrormq.broker.leases.lease_manager import LeaseManager
from mirrormq.broker.leases.range_reads import RangeReads
from mirrormq.broker.leases.range_sources import RangeSource, master_source, mirror_source
from mirrormq.broker.leases.sink_batches import SinkBatches
from mirrormq.errors import AmqpError, NotFound, PreconditionFailed
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.queue import Queue
from mirrormq.ranges import error_reasons, range_limits, range_protocol
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
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.vhost import Vhost
    from mirrormq.channels.channel import Channel
    from mirrormq.connections.connection import Connection
    from mirrormq.queues.queue_interface import QueueInterface


class PendingReply:
    """One question of one client, until it is answered."""

    def __init__(self, channel: Channel, reply_name: str, correlation_id: str | None) -> None:
        self._channel = channel
        self._name = reply_name
        self._correlation_id = correlation_id

    def answered(self, given: RangeReply) -> None:
        """A good answer."""
        self._send(range_protocol.OK, decode_table(given.headers, 0)[0], given.body)

    def refused(self, error: AmqpError) -> None:
        """The answer is an error; the channel lives."""
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
        channel.broker.deliver_reply(self._name, envelope, [frames])


class RangeRequestHandler:
    """Everything that is asked on this node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.reads = RangeReads(broker)
        self.leases = LeaseManager(broker)
        self.jobs = JobReports(broker)
        self.batches = SinkBatches(broker)
        self._reading: dict[Connection, int] = {}
        """How many reads of each client are not answered yet."""

    # -- clients --------------------------------------------------------------------------------

    def asked(self, channel: Channel, contents: list[bytes]) -> None:
        """Questions of a client of this node."""
        for content in contents:
            properties = decode_properties(properties_of(content), 0)
            name = properties.reply_to or ""
            if not name.startswith(direct_reply_to.PREFIX):
                raise PreconditionFailed(
                    f"a question about ranges needs the reply_to '{range_protocol.REPLY_QUEUE}'"
                )
            talk = PendingReply(channel, name, properties.correlation_id)
            headers = encode_table(properties.headers or {})
            range_request = RangeRequest(headers, body_of(content), channel.user.name)
            try:
                self._ask(channel, range_request, talk)
            except AmqpError as error:
                talk.refused(error)

    def _ask(self, channel: Channel, range_request: RangeRequest, talk: PendingReply) -> None:
        values = range_request.values()
        ask = values.text("ask")
        if ask not in range_protocol.ASKS:
            raise PreconditionFailed(
                f"there is no question '{ask}'; there is {', '.join(range_protocol.ASKS)}"
            )
        if ask == range_protocol.LEASES and not values.has("queue"):
            talk.answered(self.leases.listed(channel))
            return
        if ask == range_protocol.REPORT:
            self.jobs.reported(channel, values, talk.answered)
            return
        if ask == range_protocol.BATCH:
            self.batches.begin(channel, values, talk.answered, talk.refused)
            return
        if ask == range_protocol.QUEUES:
            talk.answered(self._queues(channel))
            return
        name = values.text("queue")
        channel.check_permission("queue", name, "read")
        queue = channel.vhost.accessible_queue(name, channel.connection)
        if ask == range_protocol.READ:
            self._read(channel, queue, range_request, values, talk)
        else:
            queue.handle_range_request(range_request, talk.answered, talk.refused, channel.connection)

    def _queues(self, channel: Channel) -> RangeReply:
        """The queues that the client may read; those that belong to a connection are nobody else's."""
        vhost, may = channel.vhost.name, channel.broker.permissions.check
        found = self._broker.metadata.state.queues_of(vhost).values()
        names = [
            one.name for one in found if not one.exclusive and may(channel.user.name, vhost, one.name, "read")
        ]
        return reply(*range_protocol.queues_answer(self._broker.settings.name, sorted(names)))

    def _read(
        self,
        channel: Channel,
        queue: QueueInterface,
        range_request: RangeRequest,
        values: RequestValues,
        talk: PendingReply,
    ) -> None:
        connection = channel.connection
        count = self._reading.get(connection, 0)
        if count >= range_limits.READS_IN_FLIGHT_MAX:
            most = range_limits.READS_IN_FLIGHT_MAX
            raise PreconditionFailed(f"a connection may have {most} reads under way at once")
        self._reading[connection] = count + 1

        def answered(given: RangeReply) -> None:
            self._read_is_over(connection)
            talk.answered(given)

        def refused(error: AmqpError) -> None:
            self._read_is_over(connection)
            talk.refused(error)

        try:
            source = self._mirror(channel.vhost, queue, values)
            if source is None:
                queue.handle_range_request(range_request, answered, refused, connection)
            else:
                self.reads.begin(connection, source, values, answered, refused, range_limits.READ_BYTES_MAX)
        except AmqpError as error:
            refused(error)

    def _read_is_over(self, connection: Connection) -> None:
        left = self._reading.get(connection, 0) - 1
        if left > 0:
            self._reading[connection] = left
        else:
            self._reading.pop(connection, None)

    def _mirror(self, vhost: Vhost, queue: QueueInterface, values: RequestValues) -> RangeSource | None:
        """The complete copy of a queue that this node has, if it is a mirror and knows of all that is
        asked for."""
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

    def disconnected(self, connection: Connection) -> None:
        """A client is gone: nobody waits for its answers."""
        self._reading.pop(connection, None)
        self.reads.forget(connection)

    # -- queues of this node --------------------------------------------------------------------

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """A question about a queue whose master this node is."""
        try:
            self._answer(queue, range_request, answered, refused, reader)
        except AmqpError as error:
            refused(error)

    def _answer(
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
