"""Client connection: bytes in, bytes out, without a socket.

    header → starting → tuning → opening → open → closing → closed

The runtime calls `receive`, and at the end of a turn writes `take_output` to the socket. A soft error closes
a channel, a hard error the connection; only this file turns both into methods. A connection is *held* while
it waits for something: a slow password hash, a full queue, a resource alarm that blocks publishers. Its bytes
stay in the scanner then, and the runtime stops reading. A wait of a single channel delays only that channel
(`channels.pending_requests`).
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq import limits
from mirrormq.auth.client_peer import Peer
from mirrormq.broker import channel_states
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection_base import ChannelInterface, ConnectionBase
from mirrormq.channels import acknowledgements
from mirrormq.channels.channel import Channel
from mirrormq.connections import channel_dispatch, handshake, states
from mirrormq.connections.scanner import Scanner
from mirrormq.errors import AmqpError, ChannelError, ChannelErrorHard, ConnectionForced
from mirrormq.events import connection_log
from mirrormq.events.connection_log import CloseCause, CloseReason
from mirrormq.queues.queue import AnyQueue
from mirrormq.wire import methods
from mirrormq.wire.frame_errors import cut_reply_text, unreadable_frame
from mirrormq.wire.frames import BODY, HEADER, HEARTBEAT, METHOD

CLOSE_TIMEOUT_MS = 30_000
"""Time for which the socket of a closed connection stays open for the client to close it: RabbitMQ's
limit, unless the heartbeat interval is shorter."""

LOST_TIMEOUT_MS = 1_000
"""Time for which the socket stays open after a frame that was too large: the client's close-ok cannot
be read then."""


class Connection(ConnectionBase):
    """Server side of one AMQP connection."""

    def __init__(self, broker: Broker, peer: Peer, *, has_handshake: bool = True) -> None:
        super().__init__(broker, peer)
        self.effort = limits.TURN_EFFORT
        self.state: states.ConnectionState = states.HEADER
        self.channels: dict[int, Channel] = {}
        self._turn = -1
        self.yields_to: AnyQueue | None = None
        """Congested queue that must be served before this connection publishes more."""
        self._credit = limits.PUBLISHER_CREDIT
        self.finished = False
        """Whether the socket closes when the output is written."""
        self.closed_because: CloseReason | None = None
        self.last_received_ms = broker.clock.now_ms
        self._leaving = False
        """Whether the client has sent connection.close while channels waited for replies."""
        self._holds = 0
        self._postponed_bytes = 0
        self._overfull = False
        self._header = b""
        self._scanner = Scanner(self, broker.settings.initial_frame_max)
        if has_handshake:
            handshake.begin(self)

    # -- state ----------------------------------------------------------------------------------

    @property
    def awaits_start_ok(self) -> bool:
        """Whether connection.start was sent and the client has not replied."""
        return self.state is states.STARTING and not self.mechanism

    @property
    def closed(self) -> bool:
        """Whether connection.close was sent or the socket is closed."""
        return self.state is states.CLOSING or self.state is states.CLOSED

    @property
    def held(self) -> bool:
        """Whether frames must wait."""
        return (
            self._holds > 0
            or self.effort <= 0
            or self.reply_bytes > limits.REPLY_BYTES_MAX
            or self.finished
            or self.blocked
        )

    def hold(self) -> None:
        """Handle no more frames until `release`."""
        self._holds += 1
        self.effort -= limits.METADATA_WRITE_EFFORT

    def release(self) -> None:
        """End a `hold`; the next `resume` handles the frames that have waited."""
        self._holds -= 1

    def open_channels(self) -> list[ChannelInterface]:
        """Return the channels of the connection, oldest first."""
        return list(self.channels.values())

    @property
    def buffered_bytes(self) -> int:
        """Bytes of input that wait."""
        return self._scanner.buffered_bytes

    @property
    def awaited_bytes(self) -> int:
        """Bytes of input that are known to be missing."""
        return self._scanner.awaited_bytes

    @property
    def large_bytes(self) -> int:
        """Size of the last large message if the last input was one, else 0."""
        return self._scanner.large_bytes

    def whole_messages_bytes(self, most: int) -> int:
        """Return the number of bytes to read at once while large messages arrive."""
        return self._scanner.whole_messages_bytes(most)

    def _make_room(self) -> None:
        """Wake consumers when the client reads deliveries again."""
        for channel in self.channels.values():
            channel.make_room()

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        """Handle bytes from the socket. The memory of a view is reused after this call."""
        if self.finished:
            return
        self.last_received_ms = self.broker.clock.now_ms
        self.traffic.received_bytes += len(data)
        self.traffic.received_count += 1
        if self.state is states.HEADER:
            self._header += data
            if len(
                self._header
            ) < handshake.PROTOCOL_HEADER_SIZE and self._header == handshake.expected_so_far(self._header):
                return
            data = handshake.protocol_header(self, self._header)
            self._header = b""
        # Once per turn: a socket may deliver bytes several times in one turn.
        if self._turn != self.broker.turns:
            self._begin_turn()
        try:
            self._scanner.feed(data)
        except AmqpError as error:
            self._scan_on(error)

    def _scan_on(self, error: AmqpError) -> None:
        """Close the connection for a bad frame, and scan on: the client's close-ok may follow."""
        self.fail(error)
        while not self.finished:
            try:
                self._scanner.feed(b"")
            except AmqpError as another:
                self.fail(another)
            else:
                return

    def resume(self) -> bool:
        """Handle frames that had to wait; return False if they still have to."""
        if self._turn != self.broker.turns:
            self._begin_turn()
        if self.held:
            return False
        try:
            self._scanner.feed(b"")
        except AmqpError as error:
            self._scan_on(error)
        return True

    def _begin_turn(self) -> None:
        self._turn = self.broker.turns
        self.effort = limits.TURN_EFFORT

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Handle a frame from the scanner."""
        self.effort -= 1 if kind == BODY else 1 + len(payload) // limits.HEADER_BYTES_PER_EFFORT
        if self.state is states.CLOSING:
            self._while_closing(kind, channel, payload)
        elif kind == HEARTBEAT:
            if channel:
                raise handshake.unexpected_frame(kind, payload)
            if payload:
                raise unreadable_frame(kind, payload)
        elif kind not in (METHOD, HEADER, BODY):
            raise unreadable_frame(kind, payload)
        elif channel == 0:
            self._frame_zero(kind, payload)
        else:
            channel_dispatch.frame(self, kind, channel, payload)

    def publishes_one(self, number: int, publish: bytes, content: bytes, header_bytes: int) -> None:
        """Publish one message, the last of a read."""
        self.effort -= 1 + header_bytes // limits.HEADER_BYTES_PER_EFFORT
        channel = self.channels.get(number)
        if channel is None:
            raise channel_dispatch.unopened(METHOD, publish)
        if self.state is not states.OPEN:
            return
        if channel.waiting.count:
            channel_dispatch.postpone_publishes(self, channel, [publish], [content], header_bytes)
            return
        try:
            if channel.accepts_publish(publish):
                channel.publishing.publish_one(publish, content)
        except AmqpError as error:
            self._method_failed(channel, error, methods.BASIC_PUBLISH)

    def publishes(self, number: int, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """Publish a run of messages that differ in their bodies alone."""
        self.effort -= 1 + len(properties) // limits.HEADER_BYTES_PER_EFFORT
        channel = self.channels.get(number)
        if channel is None:
            raise channel_dispatch.unopened(METHOD, publish)
        if self.state is not states.OPEN:
            return
        if channel.waiting.count:
            channel_dispatch.postpone_run(self, channel, publish, properties, contents)
            return
        try:
            if channel.accepts_publish(publish):
                channel.publishing.publish(publish, properties, contents)
        except AmqpError as error:
            self._method_failed(channel, error, methods.BASIC_PUBLISH)

    def publishes_mixed(
        self, number: int, publishes: list[bytes], contents: list[bytes], header_bytes: int
    ) -> None:
        """Publish messages, each with its own payload and properties."""
        self.effort -= len(contents) + header_bytes // limits.HEADER_BYTES_PER_EFFORT
        channel = self.channels.get(number)
        if channel is None:
            raise channel_dispatch.unopened(METHOD, publishes[0])
        if self.state is not states.OPEN:
            return
        if channel.waiting.count:
            channel_dispatch.postpone_publishes(self, channel, publishes, contents, header_bytes)
            return
        try:
            if channel.accepts_publish(publishes[0]):
                channel.publishing.publish_each(publishes, contents)
            else:
                for publish in publishes[1:]:
                    channel.accepts_publish(publish)
        except AmqpError as error:
            self._method_failed(channel, error, methods.BASIC_PUBLISH)

    def acknowledges(self, number: int, tags: list[int]) -> None:
        """Handle a run of acknowledgements."""
        self.effort -= 1
        channel = self.channels.get(number)
        if channel is None:
            raise ChannelErrorHard("expected 'channel.open'").at(methods.BASIC_ACK)
        if self.state is not states.OPEN:
            return
        if channel.waiting.count:
            channel_dispatch.postpone_acknowledgements(self, channel, tags)
            return
        try:
            if channel.accepts(b""):
                acknowledgements.acknowledge_each(channel, tags)
        except AmqpError as error:
            self._method_failed(channel, error, methods.BASIC_ACK)

    def _method_failed(self, channel: Channel, error: AmqpError, method_id: int) -> None:
        """Close the channel for a soft error of a method; a hard error closes the connection."""
        error.at(method_id)
        if not isinstance(error, ChannelError):
            raise error
        self.close_channel(channel, error)

    def may_publish(self) -> bool:
        """Return whether the client may publish. The first publish under an alarm blocks its
        connection; connections that only consume are not blocked."""
        if self.broker.alarms.in_force:
            self._block()
        return not self.blocked

    def _frame_zero(self, kind: int, payload: bytes) -> None:
        if kind != METHOD:
            raise handshake.unexpected_frame(kind, payload)
        handshake.method(self, payload)

    def set_frame_max(self, frame_max: int) -> None:
        """Set the negotiated frame size."""
        self._scanner.open(frame_max, self.broker.settings.max_message_size)

    def congested_by(self, queue: AnyQueue, count: int, size_bytes: int) -> None:
        """Slow down after a publish to a congested queue; hold the connection if the queue is full."""
        if queue.full:
            self.hold()
            queue.when_room(self.release)
            return
        self._credit -= count + size_bytes // limits.BYTES_PER_CREDIT
        if self._credit < 0:
            self._credit = limits.PUBLISHER_CREDIT
            self.yields_to = queue

    def postponed(self, size_bytes: int) -> None:
        """Add to the postponed bytes, or subtract; too many of them hold the connection."""
        self._postponed_bytes += size_bytes
        if (self._postponed_bytes > limits.POSTPONED_BYTES_MAX) is self._overfull:
            return
        self._overfull = not self._overfull
        if self._overfull:
            self.hold()
        else:
            self.release()

    def replay(self, action: Callable[[], None]) -> None:
        """Handle a frame that was postponed."""
        if self.state is not states.OPEN:
            return
        try:
            action()
        except AmqpError as error:
            self.fail(error)

    # -- errors and closing ---------------------------------------------------------------------

    def fail(self, error: AmqpError) -> None:
        """Close the connection for a hard error, and wait for close-ok."""
        if self.closed or self.finished:
            return
        self.closed_because = CloseReason(CloseCause.ERROR, error.text)
        connection_log.failed(self, error, 0)
        if self.state is not states.OPEN:
            handshake.fail(self, error)
            return
        self.end_channels()
        if error.silent:
            self.finish()
            return
        self.close_with(error)

    def close_with(self, error: AmqpError) -> None:
        self.send(
            0,
            methods.encode_connection_close(
                error.code, cut_reply_text(error.text), error.class_id or 0, error.method_id
            ),
        )
        self._await_end()

    def _await_end(self) -> None:
        """Wait a limited time for the client to close the socket."""
        self.state = states.CLOSING
        timeout_ms = min(self.heartbeat_s * 1000 or CLOSE_TIMEOUT_MS, CLOSE_TIMEOUT_MS)
        if self._scanner.lost:
            timeout_ms = LOST_TIMEOUT_MS
        self.broker.clock.at(self.broker.clock.now_ms + timeout_ms, self.finish)

    def force_close(self, explanation: str) -> None:
        """Close the connection for the operator."""
        if self.state is states.OPEN:
            self.fail(ConnectionForced(explanation))
        else:
            self.finish()

    def _while_closing(self, kind: int, channel: int, payload: bytes) -> None:
        """Ignore all methods except closes. A connection.close may cross ours, and several threads of a
        client may each send one: all are answered."""
        if kind != METHOD or channel:
            return
        if payload[:4] == methods.CONNECTION_CLOSE_OK.to_bytes(4, "big"):
            self.finish()
        elif payload[:4] == methods.CONNECTION_CLOSE.to_bytes(4, "big"):
            self.send(0, methods.encode_connection_close_ok())

    def close_channel(self, channel: ChannelInterface, error: AmqpError) -> None:
        """Close a channel for a soft error: requeue its deliveries and send channel.close."""
        connection_log.failed(self, error, channel.number)
        channel.state = channel_states.CLOSING
        channel.terminate()
        self.broker.events.channel_closed(channel)
        self.send(
            channel.number,
            methods.encode_channel_close(
                error.code, cut_reply_text(error.text), error.class_id or 0, error.method_id
            ),
        )
        channel.resume()

    def end_channel(self, channel: ChannelInterface) -> None:
        if not channel.closing:
            channel.terminate()
            self.broker.events.channel_closed(channel)
        self.forget_channel(channel)

    def forget_channel(self, channel: ChannelInterface) -> None:
        """Free the number of a closed channel."""
        channel.state = channel_states.CLOSED
        del self.channels[channel.number]

    def end_channels(self) -> None:
        """Terminate all channels, and delete the exclusive queues."""
        if self._leaving:
            self._leaving = False
            self.release()
        for channel in list(self.channels.values()):
            self.end_channel(channel)
        self.broker.delete_exclusive(self)

    def closed_by_client(self) -> None:
        """Handle connection.close of the client. Earlier requests on channels that wait are completed
        first."""
        if self._channels_wait():
            self._leaving = True
            self.hold()
            return
        self.end_channels()
        self.send(0, methods.encode_connection_close_ok())
        self._await_end()

    def channel_answered(self) -> None:
        """Continue a connection.close when no channel waits for a reply."""
        if self._leaving and not self._channels_wait():
            self.closed_by_client()

    def _channels_wait(self) -> bool:
        return any(channel.waiting.count for channel in self.channels.values())

    def finish(self) -> None:
        """Stop reading; the runtime closes the socket when the output is written."""
        if not self.finished:
            self.finished = True
            self.broker.writing[self] = None

    def lost(self) -> None:
        """Handle the loss of the socket."""
        if not self.finished and not self.closed_because and self.state is not states.CLOSING:
            self.closed_because = self._reason_of_loss()
        self.finished = True
        if self.state is not states.CLOSED:
            self.state = states.CLOSED
            self.end_channels()
            self._output.clear()
            self.broker.disconnected(self)
            connection_log.closed(self)

    def _reason_of_loss(self) -> CloseReason:
        if self.state is states.HEADER and not self._header:
            return connection_log.NOTHING_RECEIVED
        # A load balancer's check sends the protocol header and leaves when connection.start has arrived.
        if self.awaits_start_ok:
            return connection_log.NO_LOGIN
        return connection_log.CLOSED_BY_CLIENT

    # -- time and alarms ------------------------------------------------------------------------

    def _block(self) -> None:
        """Block a publisher: notify it of the alarm, and stop reading from it."""
        if not self.blocked and self.state is states.OPEN:
            self.blocked = True
            if self.client_can("connection.blocked"):
                self.send(0, methods.encode_connection_blocked(self.broker.alarms.reason))

    def unblock(self) -> None:
        """Unblock a publisher when the alarm is over."""
        if self.blocked:
            self.blocked = False
            if self.client_can("connection.blocked"):
                self.send(0, methods.encode_connection_unblocked())
