"""A queue whose master is another node, with a queue's face.

It keeps nothing of the queue. What channels say to it is collected and leaves in one item of each kind at the
end of the turn; what they ask leaves after what they said before. While there is no link everything waits
here, bounded by what each channel may have open, and publishes by limits that make publishers wait.

It lives for one tenure of one master (one epoch). `detach` ends it and gives what the next one must know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.claims import Claim, Settlement
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue_interface import Publisher, QueueInterface, Refused, Subscriber
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.ranges.range_request import Answered, RangeRequest
from mirrormq.remote import remote_limits
from mirrormq.remote.deliveries import Deliveries
from mirrormq.remote.handover import Handover
from mirrormq.remote.pending_publishes import PendingBatch
from mirrormq.remote.publishes import Publishes
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.queue_requests import PendingQueueRequest, QueueRequests
from mirrormq.remote.remote_messages import (
    Activated,
    Deliver,
    DeliveredBefore,
    Got,
    QueueRequest,
    RangeQuery,
    Settled,
    SettlementsReplicated,
    Subscribe,
    Subscribed,
    ToOrigin,
    Touch,
)
from mirrormq.remote.subscription import Subscription

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.remote.remote_endpoint import RemoteEndpoint
    from mirrormq.remote.stream import Stream

ON_PEER = object()
"""The owner of an exclusive queue of another node: nobody's connection here."""


class RemoteQueue:
    """The face of a queue of another node. There is one for each of them, so it is kept small."""

    __slots__ = (
        "_before",
        "_deliveries",
        "_handed_over",
        "_publishes",
        "_questions",
        "_remote",
        "_successor",
        "_touched",
        "awake",
        "deleted",
        "detached",
        "name",
        "owner",
        "place",
        "settings",
        "stream",
        "vhost",
    )  # fmt: skip

    def __init__(
        self, remote: RemoteEndpoint, stream: Stream, place: QueueRef, settings: QueueSettings
    ) -> None:
        self.vhost = place.vhost
        self.name = place.name
        self.place = place
        self.settings = settings
        self.deleted = False
        self.awake = False
        self.detached = False
        self.owner: object | None = ON_PEER if settings.exclusive else None
        self.stream = stream
        self._remote = remote
        self._successor: QueueInterface | None = None
        self._touched = False
        self._before = 0
        self._publishes = Publishes(place, remote.producer)
        self._deliveries = Deliveries(place, retaining=settings.redeliver_lost)
        self._handed_over: set[int] | None = None
        """Sequences that this node's clients hold and the next master was told of."""
        self._questions = QueueRequests(place)

    # -- publishing -----------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Is so much unsettled that publishers must wait?"""
        return self._publishes.full or self._remote.unsettled_bytes > remote_limits.PUBLISH_BYTES_TOTAL_MAX

    @property
    def congested(self) -> bool:
        """Has the master enough for its consumers, or this node all that it can keep?"""
        return self._publishes.congested or self.full

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call this once it is no longer full."""
        self._remote.when_room(self, go_on)

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Keep messages and send them to the master. Those that were published to the last master before
        have a number already."""
        if self.detached:
            self._publish_too_late(messages, publisher, first)
            return
        number = self._remote.number_publishes(self.place.queue_id, len(messages), origin)
        batch = PendingBatch(number, messages, publisher, first)
        self._publishes.add(batch)
        self._remote.unsettled_bytes += batch.size_bytes
        self._wake()

    def _publish_too_late(self, messages: list[Message], publisher: Publisher | None, first: int) -> None:
        if self._successor is not None:
            self._successor.publish(messages, publisher, first)
        elif publisher is not None and self.deleted:
            publisher.confirmed(first, first + len(messages) - 1)
        elif publisher is not None:
            for number in range(first, first + len(messages)):
                publisher.refused(number)

    def _settle(self, settled: Settled) -> None:
        before = self._publishes.unsettled.size_bytes
        self._publishes.settle(settled)
        self._remote.unsettled_bytes -= before - self._publishes.unsettled.size_bytes

    # -- consuming ------------------------------------------------------------------------------

    def subscribe(self, consumer: Subscriber, answered: Callable[[], object], refused: Refused) -> None:
        """A consumer would like to join; what it could take, it is granted at once."""

        def again(queue: QueueInterface) -> None:
            consumer.queue = queue
            consumer.waiting = False
            queue.subscribe(consumer, answered, refused)

        subscription = Subscription(self._remote.next_key(), consumer)
        item = Subscribe(
            self.place.queue_id, self.place.epoch, subscription.key, consumer.exclusive, consumer.priority,
            subscription.granted, consumer.describe(),
        )  # fmt: skip
        self._ask(item, PendingQueueRequest(again, answered, refused, subscription=subscription))

    def deliver_published(self) -> None:
        """Send publishes ahead of what is said next. The master delivers them before a consumer leaves."""
        if self.awake:
            self.pump()

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """A consumer leaves."""
        if not self.detached:
            self._deliveries.leave(consumer, self.stream)
            self._questions.leave(consumer)
            self._wake()

    def ready_again(self, consumer: QueueConsumer) -> None:
        """A consumer has room."""
        if self._deliveries.mark_dirty(consumer):
            self._wake()

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Does it get messages?"""
        return self._deliveries.is_active(consumer)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Consumers are done with these."""
        self._settle_deliveries("acknowledge", [message.sequence for message in messages])

    def requeue(self, messages: Sequence[Message]) -> None:
        """Consumers gave these back."""
        self._settle_deliveries("requeue", [message.sequence for message in messages])

    def reject(self, messages: Sequence[Message]) -> None:
        """Consumers do not want these, and they are not to come back."""
        self._settle_deliveries("reject", [message.sequence for message in messages])

    def _settle_deliveries(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        if not self.detached:
            self._deliveries.settle(settlement, sequences)
            self._wake()
        elif self._handed_over and self._successor is not None:
            mine = [sequence for sequence in sequences if sequence in self._handed_over]
            self._handed_over.difference_update(mine)
            self._successor.settle_kept(settlement, mine)

    def keep(self, holder: str, claim: Claim) -> None:
        """Clients of this node hold messages from an earlier master."""
        if not self.detached:
            self._deliveries.keep(claim)
            self._wake()

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Clients have settled such messages."""
        self._settle_deliveries(settlement, sequences)

    # -- asking ---------------------------------------------------------------------------------

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """One message."""
        again = lambda queue: queue.get(no_ack, answered, refused)  # noqa: E731
        self._ask(self._question("get"), PendingQueueRequest(again, answered, refused, no_ack))

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """Ready messages and consumers."""
        again = lambda queue: queue.count(answered, refused)  # noqa: E731
        self._ask(self._question("count"), PendingQueueRequest(again, answered, refused))

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Drop what is ready."""
        again = lambda queue: queue.purge(answered, refused)  # noqa: E731
        self._ask(self._question("purge"), PendingQueueRequest(again, answered, refused))

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """May it be deleted?"""
        again = lambda queue: queue.check_deletion(if_unused, if_empty, answered, refused)  # noqa: E731
        question = self._question("delete", if_unused, if_empty)
        self._ask(question, PendingQueueRequest(again, answered, refused, deleting=True))

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """A question about ranges or leases."""
        again = lambda queue: queue.handle_range_request(range_request, answered, refused, reader)  # noqa: E731
        item = RangeQuery(self.place.queue_id, self.place.epoch, self._remote.next_key(), *range_request)
        self._ask(item, PendingQueueRequest(again, answered, refused))

    def delivered_before(self, sequence: int) -> None:
        """This node's consumers had messages from an earlier master: the new one may not know."""
        self._before = self._deliveries.delivered_up_to = sequence
        self._wake()

    def touch(self) -> None:
        """The queue is in use."""
        self._touched = True
        self._wake()

    def _question(self, kind: str, if_unused: bool = False, if_empty: bool = False) -> QueueRequest:
        key = self._remote.next_key()
        return QueueRequest(self.place.queue_id, self.place.epoch, key, kind, if_unused, if_empty)

    def _ask(self, item: QueueRequest | RangeQuery | Subscribe, asked: PendingQueueRequest) -> None:
        if self._successor is not None:
            asked.again(self._successor)
        elif self.detached:
            self._questions.not_found(asked)
        else:
            self._questions.add(item, asked)
            self._wake()

    # -- what the master says -------------------------------------------------------------------

    def receive(self, item: ToOrigin) -> None:
        """An item of this tenure."""
        if isinstance(item, Deliver):
            self._deliveries.deliver(item)
            self._wake()
        elif isinstance(item, Settled):
            self._settle(item)
        elif isinstance(item, Got):
            self._got(item)
        elif isinstance(item, SettlementsReplicated):
            self._deliveries.replicated(item.count)
        elif isinstance(item, Activated):
            self._deliveries.set_active(item.consumer, item.active)
        elif isinstance(item, Subscribed):
            self._joined(item)
        else:
            self._questions.answer(item)

    def _joined(self, item: Subscribed) -> None:
        asked = self._questions.take(item.question)
        if asked is not None and asked.subscription is not None:
            self._deliveries.join(asked.subscription)
            asked.answered()
            if asked.subscription.gone:
                self._deliveries.leave(asked.subscription.consumer, self.stream)
            self._wake()

    def _got(self, item: Got) -> None:
        asked = self._questions.take(item.question)
        if item.run is None:
            if asked is not None:
                asked.answered(None, item.left)
            return
        messages = self._deliveries.unpack(item.run)
        if asked is None or not asked.answered(messages[0], item.left):
            self.requeue(messages)
        elif asked.no_ack:
            self.acknowledge(messages)
        else:
            self._deliveries.got(messages)

    # -- turns and tenures ----------------------------------------------------------------------

    def _wake(self) -> None:
        if not self.awake and not self.detached:
            self._remote.wake(self)

    def pump(self) -> bool:
        """Send what has been said and asked, if there is a link."""
        stream = self.stream
        if self.detached:
            return False
        if stream.open:
            if self._before:
                stream.put(DeliveredBefore(self.place.queue_id, self.place.epoch, self._before))
                self._before = 0
            self._publishes.send(stream)
            self._deliveries.send(stream)
            if self._touched:
                self._touched = False
                stream.put(Touch(self.place.queue_id, self.place.epoch))
            if not self._publishes.unsent:
                self._questions.send(stream)
                return False
        stream.when_writable(self._wake)
        return False

    def apply(self, settings: QueueSettings) -> None:
        """Policies have changed; the master knows by itself."""
        self.settings = settings
        self._deliveries.retain(settings.redeliver_lost)

    def detach(self, *, keeping: bool = False) -> Handover:
        """Another tenure begins. What consumers say to this object counts for nothing, unless they are
        `keeping` what they hold."""
        delivered = self._deliveries.delivered_up_to
        claim = self._deliveries.claim() if keeping else None
        if claim is not None:
            self._handed_over = set(claim.held)
        consumers, publishes, asked = self._end()
        return Handover(
            self._remote.producer, consumers, publishes, [one.again for one in asked], delivered, claim,
            self._begun, self._remote.resume_publishers,
        )  # fmt: skip

    def _begun(self, successor: QueueInterface) -> None:
        self._successor = successor

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """The queue is deleted: what was published to it is done with, as is what was asked."""
        self.deleted = True
        consumers, publishes, asked = self._end()
        for batch in publishes:
            batch.settle(batch.first, batch.last)
        for consumer in consumers:
            notify(consumer)
        for one in asked:
            self._questions.not_found(one)
        self._remote.resume_publishers()

    def _end(self) -> tuple[list[Subscriber], list[PendingBatch], list[PendingQueueRequest]]:
        self.detached = True
        self._remote.unsettled_bytes -= self._publishes.unsettled.size_bytes
        consumers = self._deliveries.consumers
        self._deliveries = Deliveries(self.place)
        self._remote.forget(self)
        return consumers, self._publishes.take_all(), self._questions.take_all()
