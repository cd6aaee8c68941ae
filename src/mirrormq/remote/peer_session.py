"""Peer session: publishes, consumers and requests of one other node at a queue of this node.

It holds the messages that are delivered to the node's consumers, by sequence. When the node's incarnation
ends, its consumers leave and the messages are requeued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mirrormq.errors import AmqpError
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue import Queue
from mirrormq.ranges.range_request import RangeReply, RangeRequest
from mirrormq.remote.publish_codec import Envelopes, pack_deliveries, unpack
from mirrormq.remote.remote_consumer import RemoteConsumer
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.remote.remote_messages import (
    ClaimDeliveries,
    Credit,
    DeliveredBefore,
    Got,
    ItemStream,
    Publish,
    QueueReply,
    QueueRequest,
    RangeQuery,
    RangeQueryReply,
    RemoteRefusal,
    Settle,
    Settled,
    SettlementsReplicated,
    Subscribe,
    Subscribed,
    ToMaster,
    Unsubscribe,
)
from mirrormq.sequences.spans import Interval, joined_intervals


class PeerSession:
    """Session of one node at one queue in one epoch. Acts as Publisher of the node's messages."""

    def __init__(
        self,
        queue: Queue,
        queue_id: int,
        epoch: int,
        stream: ItemStream,
        notify: Callable[[PeerSession], None],
        limits: RemoteLimits,
    ) -> None:
        self.queue = queue
        self.queue_id = queue_id
        self.epoch = epoch
        self.stream = stream
        self.limits = limits
        self.holder = f"{stream.peer}#{stream.incarnation}"
        """Node with its incarnation."""
        self._settlements = 0
        """Number of Settle items received."""
        self._replicated = 0
        """Number of Settle items that are in the ring, until it is reported to the node; then 0."""
        self._inherited: dict[int, Message] = {}
        """Messages that clients of the node hold from an earlier epoch of this master, until the node claims
        them."""
        self._ended = False
        self._consumers: dict[int, RemoteConsumer] = {}
        self._held: dict[int, Message] = {}
        self._kept: list[Interval] = []
        self._refused: list[int] = []
        self._gets: deque[int] = deque()
        """Get requests that wait until the link can carry replies."""
        self._range_requests: deque[RangeQuery] = deque()
        """Range requests that wait until the link can carry replies, which may be large."""
        self._envelopes = Envelopes()
        self._notify = notify

    def receive(self, item: ToMaster) -> None:
        """Process an item of this epoch."""
        if isinstance(item, Publish):
            self._publish(item)
        elif isinstance(item, Settle):
            self._settle(item)
        elif isinstance(item, Credit):
            self._credit(item)
        elif isinstance(item, QueueRequest):
            self._ask(item)
        elif isinstance(item, RangeQuery):
            self._range_requests.append(item)
            self._serve_range_requests()
        elif isinstance(item, Subscribe):
            self._subscribe(item)
        elif isinstance(item, Unsubscribe):
            self._unsubscribe(item)
        elif isinstance(item, ClaimDeliveries):
            self._claim(item)
        elif isinstance(item, DeliveredBefore):
            self.queue.delivered_before(item.sequence, self.holder, item.unclaimed_up_to)
        else:
            self.queue.touch()

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, item: Publish) -> None:
        number, producer = item.first_number, item.producer
        for run in item.runs:
            messages = unpack(run, self._envelopes)
            delivered = run.redelivered and not self.queue.kept.trusted
            for message in messages if run.redelivered else ():
                message.redelivered = delivered
            self.queue.publish(messages, self, number, PublishOrigin(producer, number))
            if delivered:
                self.queue.published_before(messages)
            number += len(messages)

    def confirmed(self, first: int, last: int) -> None:
        """Record publishes that the queue has confirmed."""
        self._kept.append(Interval(first, last))
        self._notify(self)

    def refused(self, number: int) -> None:
        """Record a publish that the queue refused."""
        self._refused.append(number)
        self._notify(self)

    def report(self) -> None:
        """Report the results of publishes and replicated settlements at the end of a turn."""
        if self._kept or self._refused:
            settled = Settled(
                self.queue_id, self.epoch, joined_intervals(self._kept), self._refused, self.queue.congested
            )
            self._kept, self._refused = [], []
            self.stream.put_late(settled)
        if self._replicated:
            self.stream.put_late(SettlementsReplicated(self.queue_id, self.epoch, self._replicated))
            self._replicated = 0

    # -- consuming ------------------------------------------------------------------------------

    def _subscribe(self, item: Subscribe) -> None:
        consumer = RemoteConsumer(self, item)

        def answered() -> None:
            self._consumers[item.request_id] = consumer
            self.stream.put_late(Subscribed(self.queue_id, self.epoch, item.request_id))

        self.queue.subscribe(consumer, answered, lambda error: self._refuse(item.request_id, error))

    def _unsubscribe(self, item: Unsubscribe) -> None:
        consumer = self._consumers.pop(item.consumer, None)
        if consumer is not None:
            self.queue.deliver_published()
            self.queue.unsubscribe(consumer)

    def _credit(self, item: Credit) -> None:
        consumer = self._consumers.get(item.consumer)
        if consumer is not None:
            consumer.credit(item)
            self._ready_again(consumer)

    def relieved(self) -> None:
        """Resume replies and deliveries, because the link can carry more."""
        self._serve_gets()
        self._serve_range_requests()
        for consumer in self._consumers.values():
            self._ready_again(consumer)

    def _ready_again(self, consumer: RemoteConsumer) -> None:
        if consumer.waiting and consumer.room() > 0:
            self.queue.ready_again(consumer)

    def held(self) -> list[Message]:
        """Return the messages that consumers of the node hold."""
        return [*self._held.values(), *self._inherited.values()]

    def hold(self, messages: Sequence[Message]) -> None:
        """Record messages that consumers of the node hold."""
        self._held.update([(message.sequence, message) for message in messages])

    def _settle(self, item: Settle) -> None:
        if item.acknowledged:
            self.queue.acknowledge(self._take(item.acknowledged))
        if item.requeued:
            self.queue.requeue(self._take(item.requeued))
        if item.rejected:
            self.queue.reject(self._take(item.rejected))
        self._settlements += 1
        if self.queue.settings.redeliver_lost:
            self.queue.kept.after_settling(self, self._settlements)

    def settlements_replicated(self, count: int) -> None:
        """Report to the node that its first `count` Settle items are in the ring."""
        self._replicated = count
        self._notify(self)

    def inherit(self, held: dict[int, Message]) -> None:
        """Take over messages that clients of the node held in an earlier epoch of this master."""
        self._inherited = held

    def _claim(self, item: ClaimDeliveries) -> None:
        """Accept messages that clients of the node hold from an earlier epoch, of this master or another one.
        Inherited messages that it does not claim have never reached it, and are requeued."""
        sequences = [number for first, last in item.sequences for number in range(first, last + 1)]
        inherited, self._inherited = self._inherited, {}
        self.hold([inherited.pop(number) for number in sequences if number in inherited])
        self.hold(self.queue.kept.claim(self.holder, [n for n in sequences if n not in self._held]))
        if inherited:
            self.queue.requeue(list(inherited.values()))

    def _take(self, ranges: Iterable[Interval]) -> list[Message]:
        pop = self._held.pop
        return [
            message
            for first, last in ranges
            for number in range(first, last + 1)
            if (message := pop(number, None)) is not None
        ]

    # -- requests -------------------------------------------------------------------------------

    def _ask(self, item: QueueRequest) -> None:
        def answered(*numbers: int) -> None:
            self.stream.put_late(QueueReply(self.queue_id, self.epoch, item.request_id, list(numbers)))

        def refused(error: AmqpError) -> None:
            self._refuse(item.request_id, error)

        if item.kind == "get":
            self._gets.append(item.request_id)
            self._serve_gets()
        elif item.kind == "count":
            self.queue.count(answered, refused)
        elif item.kind == "purge":
            self.queue.purge(answered, refused)
        else:
            self.queue.check_deletion(item.if_unused, item.if_empty, answered, refused)

    def _serve_gets(self) -> None:
        """Fetch messages while the link can carry them."""
        while self._gets and self.stream.writable:
            request_id = self._gets.popleft()
            self.queue.get(
                False,
                partial(self._reply_to_get, request_id),
                partial(self._refuse, request_id),
                self.holder,
            )
        if self._gets:
            self.stream.when_writable(self.relieved)

    def _serve_range_requests(self) -> None:
        """Handle range requests while the link can carry replies."""
        while self._range_requests and self.stream.writable:
            self._handle_range_request(self._range_requests.popleft())
        if self._range_requests:
            self.stream.when_writable(self.relieved)

    def _handle_range_request(self, item: RangeQuery) -> None:
        def answered(reply: RangeReply) -> None:
            range_replied = RangeQueryReply(
                self.queue_id, self.epoch, item.request_id, reply.headers, reply.body
            )
            self.stream.put_late(range_replied, len(reply.headers) + len(reply.body))

        range_request = RangeRequest(item.headers, item.body, item.user)
        self.queue.handle_range_request(
            range_request, answered, lambda error: self._refuse(item.request_id, error), self
        )

    def _reply_to_get(self, request_id: int, message: Message | None, left: int) -> bool:
        run, size_bytes = None, 0
        if self._ended:  # the session ended while the get waited for the ring
            return False
        if message is not None:
            (run,) = pack_deliveries([message])
            self.hold([message])
            size_bytes = len(message.frames)
        self.stream.put_late(Got(self.queue_id, self.epoch, request_id, run, left), size_bytes)
        return True

    def _refuse(self, request_id: int, error: AmqpError) -> None:
        refusal = RemoteRefusal(
            self.queue_id, self.epoch, request_id, error.code, error.explanation, error.reason
        )
        self.stream.put_late(refusal)

    # -- end ------------------------------------------------------------------------------------

    def lost(self) -> None:
        """End the session after the node's incarnation ended: its consumers leave, and their messages are
        requeued."""
        held = self.end()
        if held and not self.queue.deleted:
            self.queue.requeue([message for _, message in sorted(held.items())])

    def end(self) -> dict[int, Message]:
        """End the session after the epoch ended: the node's consumers leave; returns the messages that they
        held."""
        for consumer in self._consumers.values():
            self.queue.unsubscribe(consumer)
        self._ended = True
        self._consumers = {}
        self._gets.clear()
        self._range_requests.clear()
        held = self._held | self._inherited
        self._held, self._inherited = {}, {}
        return held
