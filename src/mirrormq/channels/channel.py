"""Channel of a connection: handles methods and contents; a soft error closes this channel only.

The channel itself only dispatches. Publishing, consuming and declaring have one file each; `METHODS` is the
table of their handlers. A channel that was closed for an error waits for the client's close-ok and ignores
everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from mirrormq import limits
from mirrormq.auth import access_errors
from mirrormq.auth.permissions import Access, TopicAccess
from mirrormq.broker.channel_states import CLOSED, CLOSING, RUNNING, ChannelState
from mirrormq.broker.connection_base import ConnectionBase, HeldDelivery
from mirrormq.broker.traffic_counters import ChannelCounters, PerObjectCounters
from mirrormq.channels import acknowledgements, consumer_methods, declarations, direct_reply_to, transactions
from mirrormq.channels.assembly import ContentAssembly
from mirrormq.channels.consumer import Consumer
from mirrormq.channels.direct_reply_to import ReplyConsumer
from mirrormq.channels.pending_requests import ChannelBacklog, P, PendingRequest
from mirrormq.channels.publishing import Publishing
from mirrormq.channels.unacked import Delivery, Unacked
from mirrormq.errors import (
    AccessRefused,
    AmqpError,
    ChannelErrorHard,
    CommandInvalid,
    NotFound,
    PreconditionFailed,
)
from mirrormq.metadata.commands import Command
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue_interface import QueueInterface, Refused
from mirrormq.wire import methods
from mirrormq.wire.content import rechannel, reframe
from mirrormq.wire.frames import METHOD
from mirrormq.wire.methods import decode_method

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

Handler = Callable[["Channel", Any], None]


def close(channel: Channel, method: methods.ChannelClose) -> None:
    """Handle channel.close of the client."""
    channel.connection.end_channel(channel)
    channel.send(methods.encode_channel_close_ok())


METHODS: dict[int, Handler] = {
    methods.CHANNEL_CLOSE: close,
    **declarations.METHODS,
    **consumer_methods.METHODS,
    **acknowledgements.METHODS,
    **transactions.METHODS,
}

_BASIC_ACK: Final = methods.BASIC_ACK
_BASIC_GET: Final = methods.BASIC_GET


class Channel:
    """Channel of an open connection."""

    def __init__(self, connection: ConnectionBase, number: int) -> None:
        self.connection = connection
        self.number = number
        self.broker: Broker = connection.broker
        self.vhost = connection.vhost
        self.user = connection.user
        self.counters = ChannelCounters()
        self.divided = PerObjectCounters()
        self.publishing = Publishing(self)
        self.consumers: dict[str, Consumer] = {}
        self.unacked = Unacked()
        self.last_tag = 0
        self.prefetch = 0
        """Limit of unacknowledged messages over all consumers (qos with `global`); 0 for no limit."""
        self.consumer_prefetch = 0
        """Prefetch of consumers that start from now on (qos without `global`)."""
        self.limited_unacked = 0
        self.share: int | None = None
        """Part of the channel's prefetch for the consumer that is served now; None outside of that."""
        self.last_served: Consumer | None = None
        self.flowing = True
        self.state: ChannelState = RUNNING
        self.last_queue = ""
        """Queue declared last; an empty queue name refers to it."""
        self.reply_consumer: ReplyConsumer | None = None
        self.waiting = ChannelBacklog(self)
        self._assembly = ContentAssembly(self)
        self._reporting = False

    @property
    def closing(self) -> bool:
        """Whether the channel sends nothing more. After an error only the client's close-ok has an effect."""
        return self.state is CLOSING or self.state is CLOSED

    # -- input ----------------------------------------------------------------------------------

    def frame(self, kind: int, payload: bytes) -> None:
        """Handle a frame that is not part of a simple publish."""
        self._assembly.frame(kind, payload)

    def accepts(self, payload: bytes) -> bool:
        """Return whether the channel handles methods. Raise an error if the content of a publish must come
        first."""
        if self._assembly.expecting_content:
            self._assembly.frame(METHOD, payload)
        return not self.closing

    def accepts_publish(self, payload: bytes) -> bool:
        """Return whether the channel handles publishes. An unreadable one is an error of a closing channel,
        too."""
        if self.accepts(payload):
            return True
        methods.decode_basic_publish(payload)
        return False

    def publishes(self, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        """Publish messages that were assembled from frames, or come from the broker itself."""
        if self.closing:
            return
        try:
            self.publishing.publish(publish, properties, contents)
        except AmqpError as error:
            raise error.at(methods.BASIC_PUBLISH) from None

    def method(self, method_id: int, payload: bytes) -> None:
        """Handle a method without content."""
        if self.closing:
            self._while_closing(method_id, payload)
            return
        if method_id == _BASIC_ACK and len(payload) == 13:
            acknowledgements.acknowledge(self, int.from_bytes(payload[4:12], "big"), payload[12] & 1 != 0)
            return
        if method_id == _BASIC_GET:
            consumer_methods.get(self, methods.decode_basic_get(payload))
            return
        method = decode_method(payload)
        handler = METHODS.get(method_id)
        if handler is None:
            raise self._unexpected(method_id)
        handler(self, method)

    def _while_closing(self, method_id: int, payload: bytes) -> None:
        """Ignore all methods except closes. The client's channel.close may cross ours and is answered.
        The channel stays registered until the client's close-ok, which would be an error on a
        channel that is not open."""
        decode_method(payload)
        if method_id == methods.CHANNEL_CLOSE:
            self.send(methods.encode_channel_close_ok())
        elif method_id == methods.CHANNEL_CLOSE_OK:
            self.connection.forget_channel(self)
        elif method_id == methods.CHANNEL_OPEN:
            raise self._unexpected(method_id)

    def _unexpected(self, method_id: int) -> AmqpError:
        if method_id == methods.CHANNEL_OPEN:
            return ChannelErrorHard("second 'channel.open' seen")
        return CommandInvalid("unimplemented method")

    # -- output ---------------------------------------------------------------------------------

    def send(self, payload: bytes) -> None:
        """Send a method."""
        self.connection.send(self.number, payload)

    def send_content(self, method: bytes, frames: bytes) -> None:
        """Send a method with content that may come from any channel."""
        connection = self.connection
        connection.send(self.number, method)
        connection.reply_bytes += len(frames)
        if connection.frame_max and len(frames) > connection.frame_max:
            connection.output().append(reframe(frames, self.number, connection.frame_max))
        else:
            connection.output().append(rechannel(frames, self.number))

    # -- confirms -------------------------------------------------------------------------------

    def confirmed(self, first: int, last: int) -> None:
        """Count the confirm of one queue for a span of publishes."""
        ledger = self.publishing.confirms
        if ledger is not None:
            ledger.confirmed(first, last)
            self.has_confirms()

    def refused(self, number: int) -> None:
        """Count the refusal of one queue for a publish."""
        ledger = self.publishing.confirms
        if ledger is not None:
            ledger.refused(number)
            self.has_confirms()

    def has_confirms(self) -> None:
        """Schedule `report` for the end of this turn."""
        if not self._reporting:
            self._reporting = True
            self.broker.work.report_later(self)

    def report(self) -> None:
        """Send the pending confirms to the publisher."""
        self._reporting = False
        if self.publishing.confirms is not None and not self.closing and not self.connection.closed:
            ledger = self.publishing.confirms
            finished = ledger.report(self.send)
            for first, last in finished:
                self.counters.confirmed += last - first + 1
            self.divided.confirmed(finished, ledger.oldest_open)

    # -- permissions ----------------------------------------------------------------------------

    def check_permission(self, kind: Literal["queue", "exchange"], name: str, access: Access) -> None:
        """Raise ACCESS_REFUSED unless the user has the permission."""
        if not self.broker.permissions.check(self.user.name, self.vhost.name, name, access):
            raise AccessRefused(access_errors.resource_refused(kind, name, self.vhost.name, self.user.name))

    def check_topic(self, exchange: str, routing_key: str, access: TopicAccess) -> None:
        """Check topic permissions, which apply to topic exchanges only."""
        record = self.vhost.find_exchange(exchange)
        if record is None or record.kind != "topic":
            return
        allowed = self.broker.permissions.check_topic(
            self.user.name, self.vhost.name, exchange, routing_key, access, self.connection.variables
        )
        if not allowed:
            raise AccessRefused(
                access_errors.topic_refused(routing_key, exchange, self.vhost.name, self.user.name)
            )

    def check_user_id(self, claimed: str) -> None:
        """Refuse a user_id property that is not the user's name, unless the user may impersonate."""
        if not self.broker.permissions.user_id_allowed(self.user, claimed):
            raise PreconditionFailed(access_errors.user_id_refused(claimed, self.user.name))

    # -- metadata -------------------------------------------------------------------------------

    def queue_name(self, name: str) -> str:
        """Return the queue that a method refers to: an empty name stands for the queue declared last."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def ask(
        self,
        method_id: int,
        put: Callable[[Callable[P, bool], Refused], object],
        then: Callable[P, object],
    ) -> None:
        """Start an asynchronous request for a method; the channel handles no frames until the reply
        arrives. An error reply has the effect of an error that the method raises at once."""
        request = PendingRequest(self, method_id)
        put(request.answer(then), request.refused)
        request.wait()

    def write(self, method_id: int, command: Command, then: Callable[[], object]) -> None:
        """Write a metadata command, and call `then` when all nodes have applied it."""
        self.connection.effort -= limits.METADATA_WRITE_EFFORT

        def put(answered: Callable[[], bool], refused: Refused) -> None:
            metadata = self.broker.metadata

            def done() -> None:
                answered()

            self.broker.write(command, self.user.name, lambda: metadata.wait_applied_on_all(done))

        self.ask(method_id, put, then)

    # -- tracing --------------------------------------------------------------------------------

    @property
    def traced(self) -> bool:
        """Return whether the firehose is on for this vhost."""
        return self.vhost.tracing

    def trace_publishes(
        self, envelope: Envelope, queues: Sequence[QueueInterface], contents: list[bytes]
    ) -> None:
        """Copy publishes to the firehose."""
        self.broker.firehose.published(self, envelope, queues, contents)

    def trace_deliveries(self, queue: QueueInterface, messages: Sequence[Message]) -> None:
        """Copy deliveries to the firehose."""
        self.broker.firehose.delivered(self, queue, messages)

    # -- requests of connection and broker ------------------------------------------------------

    @property
    def oldest_delivery_ms(self) -> int | None:
        """Time of the oldest unacknowledged delivery, in milliseconds; None if there is none."""
        return self.unacked.oldest_ms

    def deliveries_of(self, queue: QueueInterface) -> list[HeldDelivery]:
        """Return the unacknowledged deliveries of a queue, settlements of an open transaction included."""
        deliveries = [*self.unacked.by_tag.values()]
        deliveries += [one for _, settled in self.publishing.settlements for one in settled]
        return [(message, consumer) for message, of, consumer, _, _ in deliveries if of is queue]

    def resume(self) -> None:
        """Handle the frames that have waited for a reply."""
        self.waiting.resume()

    # -- termination ----------------------------------------------------------------------------

    def terminate(self) -> None:
        """Cancel consumers and requeue all deliveries, including those that an open transaction has settled.
        A client that is disconnected gets no more deliveries: a consumer without acknowledgements would lose
        them."""
        if not self.connection.closed:
            for consumer in list(self.consumers.values()):
                consumer.queue.deliver_published()
        # Consumers go before their deliveries: the queues would deliver the requeued messages to them again.
        self.state = CLOSING
        self.waiting.abandon()
        for consumer in list(self.consumers.values()):
            consumer_methods.remove(self, consumer, INTERNAL_USER)
        direct_reply_to.stop(self)
        for _, deliveries in self.publishing.settlements:
            self.unacked.put_back(deliveries)
        self.publishing.settlements = []
        self.give_back(self.unacked.take_all())
        self.vhost.past.add(self.counters)
        self.divided.leave_routes(self.vhost.past_routes)

    def make_room(self) -> None:
        """Wake the queues of consumers that have room in their prefetch again."""
        acknowledgements.make_room(self)

    def give_back(self, deliveries: list[Delivery]) -> None:
        """Requeue deliveries, queue by queue."""
        acknowledgements.give_back(self, deliveries)
