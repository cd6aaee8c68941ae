"""Remote queue: queue object on a client's node, for a queue whose master is another node.

It stores no messages of the queue. Operations of channels are collected and sent as one item of each kind at
the end of the turn; requests follow the operations before them. Without a link everything waits here. The
amount is bounded by the open requests of each channel, and by publish limits that make publishers wait.

It exists for one epoch of one master. `detach` ends it and returns the state for its successor.
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
    ItemStream,
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

ON_PEER = object()
"""Owner of an exclusive queue whose connection is on another node."""


class RemoteQueue:
    """Queue interface to a queue of another node. There is one for each such queue, so it is kept small."""

    __slots__ = (
        "_before",
        "_deliveries",
        "_handed_over",
        "_publishes",
        "_remote",
        "_requests",
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
        self, remote: RemoteEndpoint, stream: ItemStream, place: QueueRef, settings: QueueSettings
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
        self._publishes = Publishes(place, remote.producer, remote.limits)
        self._deliveries = Deliveries(place, retaining=settings.redeliver_lost)
        self._handed_over: set[int] | None = None
        """Sequences that clients of this node hold and that were claimed from the next master."""
        self._requests = QueueRequests(place)

    # -- publishing -----------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Unsettled publishes exceed a limit, so publishers must wait."""
        return (
            self._publishes.full or self._remote.unsettled_bytes > self._remote.limits.publish_bytes_total_max
        )

    @property
    def congested(self) -> bool:
        """Master has enough messages for its consumers, or this node has reached its limit."""
        return self._publishes.congested or self.full

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the queue is no longer full."""
        self._remote.when_room(self, resume)

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Keep messages until they are settled, and send them to the master. Messages that were published to
        the last master keep their numbers."""
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
        """Request to add a consumer; it is granted its current room at once."""

        def again(queue: QueueInterface) -> None:
            consumer.queue = queue
            consumer.waiting = False
            queue.subscribe(consumer, answered, refused)

        subscription = Subscription(self._remote.next_key(), consumer, self._remote.limits)
        item = Subscribe(
            self.place.queue_id, self.place.epoch, subscription.key, consumer.exclusive, consumer.priority,
            subscription.granted, consumer.describe(),
        )  # fmt: skip
        self._ask(item, PendingQueueRequest(again, answered, refused, subscription=subscription))

    def deliver_published(self) -> None:
        """Send publishes ahead of the next operation. The master delivers them before a consumer leaves."""
        if self.awake:
            self.pump()

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """Remove a consumer."""
        if not self.detached:
            self._deliveries.leave(consumer, self.stream)
            self._requests.leave(consumer)
            self._wake()

    def ready_again(self, consumer: QueueConsumer) -> None:
        """Grant credit to a consumer that has room."""
        if self._deliveries.mark_dirty(consumer):
            self._wake()

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Return whether the consumer receives messages."""
        return self._deliveries.is_active(consumer)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages at the master."""
        self._settle_deliveries("acknowledge", [message.sequence for message in messages])

    def requeue(self, messages: Sequence[Message]) -> None:
        """Requeue messages at the master."""
        self._settle_deliveries("requeue", [message.sequence for message in messages])

    def reject(self, messages: Sequence[Message]) -> None:
        """Reject messages at the master without requeue."""
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
        """Claim messages that clients of this node hold from an earlier master."""
        if not self.detached:
            self._deliveries.keep(claim)
            self._wake()

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Settle messages that clients hold from an earlier master."""
        self._settle_deliveries(settlement, sequences)

    # -- requests -------------------------------------------------------------------------------

    def get(self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused) -> None:
        """Request one message for basic.get."""
        again = lambda queue: queue.get(no_ack, answered, refused)  # noqa: E731
        self._ask(self._request("get"), PendingQueueRequest(again, answered, refused, no_ack))

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """Request the numbers of ready messages and of consumers."""
        again = lambda queue: queue.count(answered, refused)  # noqa: E731
        self._ask(self._request("count"), PendingQueueRequest(again, answered, refused))

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Request to drop all ready messages."""
        again = lambda queue: queue.purge(answered, refused)  # noqa: E731
        self._ask(self._request("purge"), PendingQueueRequest(again, answered, refused))

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """Request a check of the conditions of queue.delete."""
        again = lambda queue: queue.check_deletion(if_unused, if_empty, answered, refused)  # noqa: E731
        request = self._request("delete", if_unused, if_empty)
        self._ask(request, PendingQueueRequest(again, answered, refused, deleting=True))

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Send a range or lease request to the master."""
        again = lambda queue: queue.handle_range_request(range_request, answered, refused, reader)  # noqa: E731
        item = RangeQuery(self.place.queue_id, self.place.epoch, self._remote.next_key(), *range_request)
        self._ask(item, PendingQueueRequest(again, answered, refused))

    def delivered_before(self, sequence: int, holder: str = "", unclaimed_up_to: int | None = None) -> None:
        """Report to the new master that this node's consumers had messages up to `sequence` from an earlier
        one."""
        self._before = sequence
        self._deliveries.delivered_before(sequence, unclaimed_up_to)
        self._wake()

    def touch(self) -> None:
        """Report to the master that the queue is in use."""
        self._touched = True
        self._wake()

    def _request(self, kind: str, if_unused: bool = False, if_empty: bool = False) -> QueueRequest:
        key = self._remote.next_key()
        return QueueRequest(self.place.queue_id, self.place.epoch, key, kind, if_unused, if_empty)

    def _ask(self, item: QueueRequest | RangeQuery | Subscribe, asked: PendingQueueRequest) -> None:
        if self._successor is not None:
            asked.again(self._successor)
        elif self.detached:
            self._requests.not_found(asked)
        else:
            self._requests.add(item, asked)
            self._wake()

    # -- items from the master ------------------------------------------------------------------

    def receive(self, item: ToOrigin) -> None:
        """Process an item of this epoch."""
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
            self._requests.answer(item)

    def _joined(self, item: Subscribed) -> None:
        asked = self._requests.take(item.request_id)
        if asked is not None and asked.subscription is not None:
            self._deliveries.join(asked.subscription)
            asked.answered()
            if asked.subscription.gone:
                self._deliveries.leave(asked.subscription.consumer, self.stream)
            self._wake()

    def _got(self, item: Got) -> None:
        asked = self._requests.take(item.request_id)
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

    # -- turns and epochs -----------------------------------------------------------------------

    def _wake(self) -> None:
        if not self.awake and not self.detached:
            self._remote.wake(self)

    def pump(self) -> bool:
        """Send collected operations and requests, if there is a link."""
        stream = self.stream
        if self.detached:
            return False
        if stream.open:
            if self._before:
                unclaimed_up_to = self._deliveries.unclaimed_up_to
                stream.put(
                    DeliveredBefore(self.place.queue_id, self.place.epoch, self._before, unclaimed_up_to)
                )
                self._before = 0
            self._publishes.send(stream)
            self._deliveries.send(stream)
            if self._touched:
                self._touched = False
                stream.put(Touch(self.place.queue_id, self.place.epoch))
            if not self._publishes.unsent:
                self._requests.send(stream)
                return False
        stream.when_writable(self._wake)
        return False

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings that a policy has changed; the master follows the metadata itself."""
        self.settings = settings
        self._deliveries.retain(settings.redeliver_lost)

    def detach(self, *, keeping: bool = False) -> Handover:
        """End this object because another epoch begins. Later settlements are ignored, unless clients are
        `keeping` their deliveries."""
        delivered = self._deliveries.delivered_up_to
        unclaimed_up_to = self._deliveries.unclaimed_up_to if keeping else None
        claim = self._deliveries.claim() if keeping else None
        if claim is not None:
            self._handed_over = set(claim.held)
        consumers, publishes, asked = self._end()
        return Handover(
            self._remote.producer, consumers, publishes, [one.again for one in asked], delivered,
            unclaimed_up_to, claim, self._begun, self._remote.resume_publishers,
        )  # fmt: skip

    def _begun(self, successor: QueueInterface) -> None:
        self._successor = successor

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """Delete the queue: confirm unsettled publishes, notify consumers, and refuse pending requests."""
        self.deleted = True
        consumers, publishes, asked = self._end()
        for batch in publishes:
            batch.settle(batch.first, batch.last)
        for consumer in consumers:
            notify(consumer)
        for one in asked:
            self._requests.not_found(one)
        self._remote.resume_publishers()

    def _end(self) -> tuple[list[Subscriber], list[PendingBatch], list[PendingQueueRequest]]:
        self.detached = True
        self._remote.unsettled_bytes -= self._publishes.unsettled.size_bytes
        consumers = self._deliveries.consumers
        self._deliveries = Deliveries(self.place)
        self._remote.forget(self)
        return consumers, self._publishes.take_all(), self._requests.take_all()
