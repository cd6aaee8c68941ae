"""Link: moves messages from a queue of one broker to another broker, without sockets.

    source connects → destination connects → destination's setup → source's setup → consumer → running

The host opens connections and passes their events on; time is an argument. Any failure ends the attempt: both
connections are dropped, the broker at the source requeues what was not acknowledged, and the next attempt
begins from scratch. An attempt remembers nothing of an earlier one, so a break between any two steps has the
same consequence: messages after the last acknowledgement are delivered again, in their order.

Acknowledgements leave after the confirms that they rest on. When the link has a limit, the prefetch count
shrinks with the number of missing messages, before the acknowledgement that would allow another delivery.

A link that ends in good order cancels its consumer first. Without acknowledgements the source has forgotten
what it sent before its cancel-ok, so the link forwards that too. RabbitMQ closes the connection and loses it.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import islice
from typing import Protocol

from mirrormq.bridges.link_plan import AckMode, LinkPlan, SetupFailed, Subscription
from mirrormq.bridges.link_setup import SetupRun
from mirrormq.bridges.link_status import LinkState, LinkStatus
from mirrormq.bridges.rate_meter import RateMeter
from mirrormq.bridges.transfer import Transfer
from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import (
    Blocked,
    ChannelClosed,
    Closed,
    CloseReason,
    Confirm,
    ConsumerCancelled,
    Delivery,
    Event,
    FlowChanged,
    MethodReply,
    Returned,
    Unblocked,
)
from mirrormq.client.reconnect_policy import ReconnectPolicy
from mirrormq.wire import methods

STOP_TIMEOUT_MS = 3_000
"""Time that a stopping link waits for outstanding confirms and for the brokers' close-ok. What is not
confirmed by then is delivered again by the source."""

SETUP_TIMEOUT_MS = 30_000
"""Time between two open connections and a running link. It guards against a broker that accepts connections
and answers no requests."""

CHECK_INTERVAL_MS = 30_000
"""Interval in which a link looks at its source: messages that wait there, and `LinkExtension.check`. It
bounds the time in which a link says `running` although its objects were deleted. RabbitMQ takes 90 s."""

PREFETCH_MAX = 65_535
"""Largest prefetch count of basic.qos."""

CONSUMER_TAG = "mirrormq-link"


class Side(Enum):
    """End of a link."""

    SOURCE = "source"
    DESTINATION = "destination"


class Phase(Enum):
    """Step of an attempt."""

    WAITING = auto()
    """Between two attempts, or before the first."""
    CONNECTING = auto()
    DESTINATION_SETUP = auto()
    SOURCE_SETUP = auto()
    SUBSCRIBING = auto()
    RUNNING = auto()
    DRAINING = auto()
    """The consumer is cancelled; confirms are outstanding, or deliveries without acknowledgements."""
    CLOSING = auto()
    """connection.close is sent to both brokers."""
    ENDED = auto()


class LinkHost(Protocol):
    """Owner of a link's connections."""

    def connect(self, side: Side, uri: AmqpUri) -> None:
        """Open a connection; `Link.connected` or `Link.lost` follows."""

    def hang_up(self) -> None:
        """Drop both connections at once; no event of them follows."""

    def read_source(self, reading: bool) -> None:
        """Stop or resume reading the source's socket."""

    def writable(self) -> bool:
        """Return whether the destination's socket accepts output."""

    def ended(self, finished: bool) -> None:
        """Handle the end of the link: `finished` after its limit, else after `stop`."""


class Link:
    """One link on its node. Call `start` once, then pass events and time."""

    def __init__(self, plan: LinkPlan, host: LinkHost) -> None:
        self.plan = plan
        self._host = host
        self.phase = Phase.WAITING
        self._policies = {
            side: ReconnectPolicy(len(end.uris), plan.reconnect_delay_s, plan.reconnect_delay_s)
            for side, end in ((Side.SOURCE, plan.source), (Side.DESTINATION, plan.destination))
        }
        self._connections: dict[Side, ClientConnection] = {}
        self._setup: SetupRun[Subscription] | SetupRun[None] | None = None
        self._source_channel: ClientChannel | None = None
        self._destination_channel: ClientChannel | None = None
        self._subscription = Subscription("")
        self.transfer: Transfer | None = None
        self._consuming = plan.consume_at_start
        self._subscribed = False
        """The consumer of this attempt is requested and not cancelled."""
        self._cancels = 0
        """Cancelled consumers whose cancel-ok is outstanding."""
        self._reading = True
        self._finished = False
        self._prefetch = 0
        """Prefetch count last sent to the source."""
        self._limit = plan.limit
        self._state = LinkState.STARTING
        self._reason = ""
        self._changed_ms = 0
        self._forwarded = 0
        """Messages of earlier attempts."""
        self._rate = RateMeter()
        self._backlog = -1
        """Ready messages of the source's queue at the last check; -1 if there was none in this attempt."""
        self._refused = 0
        self._attempts = 0
        self._restarts = 0
        self._running_since_ms = 0
        self._next_attempt_ms: int | None = None
        self._deadline_ms: int | None = None
        self._check_ms: int | None = None

    # -- queries ----------------------------------------------------------------------------------

    @property
    def wake_ms(self) -> int | None:
        """Time of the next `tick` that the link needs; None: only events matter."""
        # While answers are outstanding or the destination is held, an event continues the transfer.
        # A closing link no longer has a destination.
        transfer = self.transfer if self.phase in (Phase.RUNNING, Phase.DRAINING) else None
        waits_for_time = transfer is not None and transfer.settled and not self._held()
        retry_ms = transfer.retry_ms if transfer is not None and waits_for_time else None
        times = (self._next_attempt_ms, self._deadline_ms, self._check_ms, retry_ms)
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    @property
    def forwarded(self) -> int:
        """Messages moved by all attempts."""
        return self._forwarded + (self.transfer.forwarded if self.transfer is not None else 0)

    def rate_per_s(self, now_ms: int) -> float:
        """Return the messages that the link moves per second."""
        return self._rate.per_s(now_ms, self.forwarded)

    @property
    def source_connection(self) -> ClientConnection | None:
        """Connection to the source while it is open."""
        return self._connections.get(Side.SOURCE)

    def uri(self, side: Side) -> AmqpUri:
        """Return the URI that an end uses or tries next."""
        end = self.plan.source if side is Side.SOURCE else self.plan.destination
        return end.uris[self._policies[side].address]

    def uri_index(self, side: Side) -> int:
        """Return the place of that URI in the plan."""
        return self._policies[side].address

    def status(self) -> LinkStatus:
        """Return the present status."""
        transfer = self.transfer
        limit = self._limit
        return LinkStatus(
            state=self._state.value,
            reason=self._reason,
            changed_ms=self._changed_ms,
            attempts=self._attempts,
            next_attempt_ms=self._next_attempt_ms or 0,
            forwarded=self.forwarded,
            remaining=-1 if limit is None else max(0, limit - self.forwarded),
            pending=transfer.pending_count if transfer is not None else 0,
            unconfirmed=transfer.unconfirmed_count if transfer is not None else 0,
            refused=self._refused + (transfer.refused_count if transfer is not None else 0),
            restarts=self._restarts,
            backlog=self._backlog,
            last_message_ms=self._rate.grown_ms,
        )

    # -- input ------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Begin the first attempt."""
        self._changed_ms = now_ms
        self._attempt()

    def connected(self, side: Side, connection: ClientConnection, now_ms: int) -> None:
        """Go on with an open connection."""
        self._connections[side] = connection
        if side is Side.SOURCE:
            self._host.connect(Side.DESTINATION, self.uri(Side.DESTINATION))
            return
        self.phase = Phase.DESTINATION_SETUP
        self._deadline_ms = now_ms + SETUP_TIMEOUT_MS
        try:
            self._setup = SetupRun(connection, self.plan.destination.setup(connection))
            self._continue_setup(now_ms)
        except SetupFailed as failure:
            self._fail(side, f"{side.value}: {failure}", now_ms)

    def lost(self, side: Side, closed: Closed, now_ms: int) -> None:
        """Handle a connection that could not be opened, or has ended."""
        if self.phase is Phase.CLOSING:
            self._connections.pop(side, None)
            if not self._connections:
                self._end()
        elif self.phase not in (Phase.ENDED, Phase.WAITING):
            self._fail(side, _closed_text(side, self.uri(side), closed), now_ms, closed.reason.permanent)

    def receive(self, side: Side, events: list[Event], now_ms: int) -> None:
        """Handle events of an open connection, then publish and acknowledge what they allow."""
        taken = 0
        if side is Side.SOURCE and self.transfer is not None and self._source_channel is not None:
            taken = self.transfer.take_first(events, self._source_channel.number)
        for event in islice(events, taken, None) if taken else events:
            if self.phase in (Phase.ENDED, Phase.WAITING):
                return
            if isinstance(event, Closed):
                self.lost(side, event, now_ms)
            elif side is Side.SOURCE:
                self._source_event(event, now_ms)
            else:
                self._destination_event(event, now_ms)
        self.proceed(now_ms)

    def tick(self, now_ms: int) -> None:
        """Act on the time: the next attempt, a retry after a refusal, the end of a wait."""
        if self._next_attempt_ms is not None and now_ms >= self._next_attempt_ms:
            self._next_attempt_ms = None
            self._attempt()
        if self._deadline_ms is not None and now_ms >= self._deadline_ms:
            self._expire(now_ms)
        if self._check_ms is not None and now_ms >= self._check_ms:
            self._check(now_ms)
        self.proceed(now_ms)

    def _check(self, now_ms: int) -> None:
        """Ask the source for its backlog, and whether the link's objects still exist."""
        assert self._source_channel is not None
        self._check_ms = now_ms + CHECK_INTERVAL_MS
        self._source_channel.request(methods.encode_queue_declare(self._subscription.queue, passive=True))
        if self.plan.extension is not None:
            self.plan.extension.check()

    def _expire(self, now_ms: int) -> None:
        """Give up waiting for a broker's answer."""
        self._deadline_ms = None
        if self.phase in (Phase.DRAINING, Phase.CLOSING):
            self._host.hang_up()
            self._end()
            return
        side = Side.DESTINATION if self.phase is Phase.DESTINATION_SETUP else Side.SOURCE
        text = f"the broker did not answer the link's requests within {SETUP_TIMEOUT_MS // 1000} s"
        self._fail(side, f"{side.value}: {text}", now_ms)

    def consume(self, wanted: bool) -> None:
        """Start or cancel the source's consumer. Deliveries under way are still forwarded."""
        if wanted == self._consuming:
            return
        self._consuming = wanted
        if self.phase is Phase.RUNNING:
            self._follow_wish()

    def _follow_wish(self) -> None:
        channel = self._source_channel
        if channel is None or self._consuming is self._subscribed:
            return
        if self._consuming:
            self._subscribe(channel)
        else:
            self._cancel(channel)

    def stop(self, now_ms: int) -> None:
        """End the link in good order: no more deliveries, outstanding confirms are awaited."""
        if self.phase in (Phase.SUBSCRIBING, Phase.RUNNING):
            self._drain(now_ms)
            self.proceed(now_ms)
        elif self.phase not in (Phase.DRAINING, Phase.CLOSING, Phase.ENDED):
            self._next_attempt_ms = None
            self._host.hang_up()
            self._end()

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self) -> None:
        self.phase = Phase.CONNECTING
        self._host.connect(Side.SOURCE, self.uri(Side.SOURCE))

    def _fail(self, side: Side, text: str, now_ms: int, permanent: bool = False) -> None:
        """End the attempt, and plan the next one."""
        ran_ms = now_ms - self._running_since_ms if self.phase in (Phase.RUNNING, Phase.DRAINING) else 0
        stopping = self.phase in (Phase.DRAINING, Phase.CLOSING)
        self._forget_attempt()
        self._host.hang_up()
        if stopping and not self._finished:
            self._end()
            return
        self.phase = Phase.WAITING
        self._finished = False
        self._attempts += 1
        self._restarts += 1
        self._change(LinkState.TERMINATED, text, now_ms)
        delay_ms = int(self.plan.reconnect_delay_s * 1000)
        if self.plan.reconnect_delay_s <= 0:
            return
        # Most breaks of a link that has worked for a while are short, so it tries again at once. One that ran
        # for less than its delay waits, whatever it moved: a message that the destination refuses by closing
        # the channel would end each attempt after the messages before it.
        worked = ran_ms >= delay_ms
        if worked:
            for policy in self._policies.values():
                policy.succeeded()
        wait_s = self._policies[side].failed(permanent=permanent).wait_s
        self._next_attempt_ms = now_ms + (0 if worked else int(wait_s * 1000))

    def _forget_attempt(self) -> None:
        if self.transfer is not None:
            self._forwarded += self.transfer.forwarded
            self._refused += self.transfer.refused_count
        if self.plan.extension is not None and Side.SOURCE in self._connections:
            self.plan.extension.ended()
        self._connections.clear()
        self._setup = None
        self._source_channel = self._destination_channel = None
        self.transfer = None
        self._deadline_ms = self._check_ms = None
        self._reading = True
        self._subscribed = False
        self._cancels = 0
        self._backlog = -1

    def _change(self, state: LinkState, reason: str, now_ms: int) -> None:
        if state is not self._state:
            self._state, self._changed_ms = state, now_ms
        self._reason = reason

    # -- setup ------------------------------------------------------------------------------------

    def _continue_setup(self, now_ms: int) -> None:
        """Go to the next step when a script has finished."""
        setup = self._setup
        if setup is None or not setup.finished:
            return
        if self.phase is Phase.DESTINATION_SETUP:
            self._destination_channel = channel = setup.open()
            if self.plan.ack_mode is AckMode.ON_CONFIRM:
                channel.request(methods.encode_confirm_select())
            source = self._connections[Side.SOURCE]
            self.phase = Phase.SOURCE_SETUP
            self._setup = SetupRun(source, self.plan.source.setup(source))
            self._continue_setup(now_ms)
        elif self.phase is Phase.SOURCE_SETUP:
            assert isinstance(setup.result, Subscription)
            self._subscription = setup.result
            self._setup = None
            self._begin_transfer(setup.open(), now_ms)

    def _begin_transfer(self, channel: ClientChannel, now_ms: int) -> None:
        """Create the transfer, and the consumer unless nothing is left to move."""
        plan = self.plan
        assert self._destination_channel is not None
        if plan.limit_to_ready:
            self._limit = self.forwarded + self._subscription.ready
        remaining = None if self._limit is None else max(0, self._limit - self.forwarded)
        prefetch = plan.source.prefetch
        if remaining is not None and not 0 < prefetch <= remaining:
            prefetch = max(1, remaining)
        prefetch = min(prefetch, PREFETCH_MAX)
        connection = self._connections[Side.SOURCE]
        self._source_channel = channel
        self.transfer = Transfer(
            channel,
            self._destination_channel,
            lambda delivery: plan.transform(delivery, connection),
            plan.ack_mode,
            prefetch,
            remaining,
            plan.destination.mandatory,
            plan.moved,
            plan.held_bytes_max,
        )
        self.phase = Phase.SUBSCRIBING
        if plan.ack_mode is not AckMode.NO_ACK:
            self._prefetch = prefetch
            # A channel-wide limit can be changed later; with a limit it has to be.
            channel.request(methods.encode_basic_qos(0, prefetch, remaining is not None))
        if self._consuming and remaining != 0:
            self._subscribe(channel)
        else:
            self._running(now_ms)

    def _consumers(self) -> list[tuple[str, str]]:
        """Return queue and tag of each consumer; the first is the link's own."""
        tag = self.plan.source.consumer_tag or CONSUMER_TAG
        also = [(queue, f"{tag}-{number}") for number, queue in enumerate(self._subscription.also, 1)]
        return [(self._subscription.queue, tag), *also]

    def _subscribe(self, channel: ClientChannel) -> None:
        self._subscribed = True
        no_ack, arguments = self.plan.ack_mode is AckMode.NO_ACK, self.plan.source.consumer_arguments
        for queue, tag in self._consumers():
            channel.request(methods.encode_basic_consume(queue, tag, no_ack=no_ack, arguments=arguments))

    def _cancel(self, channel: ClientChannel) -> None:
        self._subscribed = False
        for _, tag in self._consumers():
            channel.request(methods.encode_basic_cancel(tag, False))
            self._cancels += 1

    def _running(self, now_ms: int) -> None:
        assert self.transfer is not None
        self.phase = Phase.RUNNING
        self._deadline_ms = None
        self._attempts = 0
        self._running_since_ms = now_ms
        self._change(LinkState.RUNNING, "", now_ms)
        if self.plan.extension is not None:
            self.plan.extension.running(self._connections[Side.SOURCE])
        self._check(now_ms)
        if not self.transfer.complete:
            self._follow_wish()

    # -- events -----------------------------------------------------------------------------------

    def _source_event(self, event: Event, now_ms: int) -> None:
        channel = self._source_channel
        number = getattr(event, "channel", 0)
        if self.phase is Phase.SOURCE_SETUP and self._setup is not None:
            self._setup_event(Side.SOURCE, event, now_ms)
        elif channel is None or number != channel.number:
            if number and self.plan.extension is not None:
                failure = self.plan.extension.source_event(event)
                if failure is not None:
                    self._fail(Side.SOURCE, failure, now_ms)
        elif isinstance(event, Delivery) and self.transfer is not None:
            self.transfer.delivered([event])
        elif isinstance(event, MethodReply):
            if self.phase is Phase.SUBSCRIBING and isinstance(event.method, methods.BasicConsumeOk):
                self._running(now_ms)
            elif isinstance(event.method, methods.BasicCancelOk):
                self._cancels -= 1
            elif isinstance(event.method, methods.QueueDeclareOk):
                self._backlog = event.method.message_count
        elif isinstance(event, ChannelClosed) and event.code:
            self._fail(Side.SOURCE, f"source: {event.text}", now_ms)
        elif isinstance(event, ConsumerCancelled):
            text = f"source: the broker cancelled the consumer of queue '{self._subscription.queue}'"
            self._fail(Side.SOURCE, text, now_ms)

    def _destination_event(self, event: Event, now_ms: int) -> None:
        transfer = self.transfer
        if self.phase is Phase.DESTINATION_SETUP and self._setup is not None:
            self._setup_event(Side.DESTINATION, event, now_ms)
        elif isinstance(event, ChannelClosed) and event.code:
            self._fail(Side.DESTINATION, f"destination: {event.text}", now_ms)
        elif transfer is None:
            return
        elif isinstance(event, Confirm):
            transfer.confirmed(event, now_ms)
        elif isinstance(event, Returned):
            transfer.returned(event)
        elif isinstance(event, Blocked | Unblocked | FlowChanged):
            self._show_state(now_ms)

    def _setup_event(self, side: Side, event: Event, now_ms: int) -> None:
        assert self._setup is not None
        try:
            self._setup.handle(event)
            self._continue_setup(now_ms)
        except SetupFailed as failure:
            self._fail(side, f"{side.value}: {failure}", now_ms)

    # -- transfer ---------------------------------------------------------------------------------

    def proceed(self, now_ms: int) -> None:
        """Publish what may be published, acknowledge what is settled, and end if all is done."""
        transfer = self.transfer
        if transfer is None or self.phase not in (Phase.RUNNING, Phase.DRAINING):
            return
        no_ack = self.plan.ack_mode is AckMode.NO_ACK
        if (self.phase is Phase.RUNNING or no_ack) and not self._held():
            transfer.publish(now_ms)
        if self.phase is Phase.RUNNING:
            if transfer.complete:
                self._finished = True
                self._drain(now_ms)
            self._show_state(now_ms)
        self._rate.note(now_ms, self.forwarded)
        self._pace()
        self._acknowledge(transfer)
        outstanding = no_ack and (self._cancels or transfer.pending_count)
        if self.phase is Phase.DRAINING and transfer.settled and not outstanding:
            self._close(now_ms)

    def _held(self) -> bool:
        """Return whether the destination takes no publishes at this moment."""
        connection, channel = self._connections[Side.DESTINATION], self._destination_channel
        assert channel is not None
        return connection.blocked is not None or not channel.flow_active or not self._host.writable()

    def _show_state(self, now_ms: int) -> None:
        if self.phase is not Phase.RUNNING or self.transfer is None:
            return
        blocked = self._connections[Side.DESTINATION].blocked
        reason = self.transfer.block_reason
        if blocked is not None:
            reason = f"destination: connection.blocked, {blocked or 'the broker is short of resources'}"
        self._change(LinkState.BLOCKED if reason else LinkState.RUNNING, reason, now_ms)

    def _pace(self) -> None:
        """Stop reading the source while the link holds too much."""
        assert self.transfer is not None
        if self.transfer.crowded is self._reading:
            self._reading = not self._reading
            self._host.read_source(self._reading)

    def _acknowledge(self, transfer: Transfer) -> None:
        frames = transfer.take_acks()
        if not frames:
            return
        assert self._source_channel is not None
        if transfer.limit is not None and self.phase is Phase.RUNNING:
            # First the smaller prefetch count: the acknowledgement would let the source send more messages
            # than the link may take, and these would come back marked as redelivered.
            missing = transfer.limit - transfer.forwarded
            if 0 < missing < self._prefetch:
                self._prefetch = missing
                self._source_channel.request(methods.encode_basic_qos(0, missing, True))
        self._connections[Side.SOURCE].send(frames)

    def _drain(self, now_ms: int) -> None:
        """Cancel the consumer and wait for outstanding confirms."""
        assert self._source_channel is not None
        self.phase = Phase.DRAINING
        self._deadline_ms, self._check_ms = now_ms + STOP_TIMEOUT_MS, None
        if self._subscribed:
            self._cancel(self._source_channel)

    def _close(self, now_ms: int) -> None:
        """Close both connections. The brokers answer after they have handled everything sent before."""
        self.phase = Phase.CLOSING
        if not self._reading:
            self._host.read_source(True)
        self._deadline_ms = now_ms + STOP_TIMEOUT_MS
        if self.plan.extension is not None and self._source_channel is not None:
            self.plan.extension.closing(self._source_channel)
        for connection in self._connections.values():
            connection.close()

    def _end(self) -> None:
        self._forget_attempt()
        self.phase = Phase.ENDED
        if self._finished:
            self._state = LinkState.FINISHED
        self._host.ended(self._finished)


def _closed_text(side: Side, uri: AmqpUri, closed: Closed) -> str:
    """Return the reason of a lost connection for the status."""
    where = uri.where if uri.host else "in this cluster"
    match closed.reason:
        case CloseReason.LOGIN_REFUSED | CloseReason.VHOST_REFUSED | CloseReason.SERVER:
            return f"{side.value} {where}: {closed.text}"
    return f"{side.value}: {closed.text}"
