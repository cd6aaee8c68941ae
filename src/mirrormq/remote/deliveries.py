"""What a queue of another node delivers to consumers here, and what they say about it.

A consumer that needs no acknowledgements is one that does to its master: the message is acknowledged when it
has been passed on to the client. So nothing that is under way is lost when a consumer is cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.queues.claims import NOTHING, Claim, Settlement
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Subscriber
from mirrormq.remote import remote_limits
from mirrormq.remote.intervals import ranges_of
from mirrormq.remote.publish_codec import Envelopes, unpack_deliveries
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_messages import (
    ClaimDeliveries,
    Credit,
    Deliver,
    DeliveredRun,
    Range,
    Settle,
    Unsubscribe,
)
from mirrormq.remote.retained import RetainedDeliveries
from mirrormq.remote.stream import Stream
from mirrormq.remote.subscription import Subscription


class Deliveries:
    """The consumers of this node at one queue, in one tenure, and what they have settled."""

    __slots__ = (
        "_acknowledged",
        "_by_consumer",
        "_by_key",
        "_claimed",
        "_dirty_marked",
        "_envelopes",
        "_place",
        "_rejected",
        "_requeued",
        "_retained",
        "_settlements",
        "delivered_up_to",
    )  # fmt: skip

    def __init__(self, place: QueueRef, *, retaining: bool = False) -> None:
        self._place = place
        self._by_key: dict[int, Subscription] = {}
        self._by_consumer: dict[QueueConsumer, Subscription] = {}
        self._dirty_marked: dict[Subscription, None] = {}
        """Those whose room may have changed."""
        self._acknowledged: list[int] = []
        self._requeued: list[int] = []
        self._rejected: list[int] = []
        self._envelopes = Envelopes()
        self.delivered_up_to = 0
        """What consumers of this node have been sent, by this master or an earlier one."""
        self._retained = RetainedDeliveries() if retaining else None
        """What the next master is told, with `ha-redeliver: lost`."""
        self._claimed: list[Range] | None = None
        """The claim to state to this master."""
        self._settlements = 0
        """Settle items sent."""

    # -- consumers ------------------------------------------------------------------------------

    @property
    def consumers(self) -> list[Subscriber]:
        """In the order in which they joined."""
        return [subscription.consumer for subscription in self._by_key.values()]

    def join(self, subscription: Subscription) -> None:
        """The master has taken a consumer in. It is out of turn for good: it says whenever it has room, and
        may have got some while the question was under way."""
        subscription.consumer.waiting = True
        self._dirty_marked[subscription] = None
        self._by_key[subscription.key] = subscription
        self._by_consumer[subscription.consumer] = subscription

    def leave(self, consumer: QueueConsumer, stream: Stream) -> None:
        """A consumer leaves; what has not been passed on to it goes back."""
        subscription = self._by_consumer.pop(consumer, None)
        if subscription is None:
            return
        del self._by_key[subscription.key]
        self._dirty_marked.pop(subscription, None)
        self._requeued += [message.sequence for message in subscription.inbox]
        stream.put(Unsubscribe(self._place.queue_id, self._place.epoch, subscription.key))

    def mark_dirty(self, consumer: QueueConsumer) -> bool:
        """A consumer has room; False if it is none."""
        subscription = self._by_consumer.get(consumer)
        if subscription is not None:
            self._dirty_marked[subscription] = None
        return subscription is not None

    def set_active(self, key: int, active: bool) -> None:
        """The master says whether a consumer is the single active one."""
        if key in self._by_key:
            self._by_key[key].active = active

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Does it get messages?"""
        subscription = self._by_consumer.get(consumer)
        return subscription is not None and subscription.active

    # -- messages -------------------------------------------------------------------------------

    def deliver(self, item: Deliver) -> None:
        """Messages have come; those of a consumer that has left go back."""
        subscription = self._by_key.get(item.consumer)
        for run in item.runs:
            if subscription is None:
                self._requeued += run.sequences  # nobody has seen them
            else:
                self._passed(subscription, subscription.came(self.unpack(run)))
        if subscription is not None:
            self._dirty_marked[subscription] = None

    def unpack(self, run: DeliveredRun) -> list[Message]:
        """The messages of a run, from now on known to have been delivered."""
        self.delivered_up_to = max(self.delivered_up_to, *run.sequences)
        return unpack_deliveries(run, self._envelopes)

    def _passed(self, subscription: Subscription, messages: list[Message]) -> None:
        if subscription.consumer.no_ack:
            self.settle("acknowledge", [message.sequence for message in messages])
        elif self._retained is not None:
            self._retained.delivered([message.sequence for message in messages], subscription.consumer)

    def got(self, messages: Sequence[Message]) -> None:
        """A client holds what it asked for."""
        if self._retained is not None:
            self._retained.delivered([message.sequence for message in messages])

    def settle(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Consumers are done with these, gave them back, or do not want them."""
        if settlement == "acknowledge":
            self._acknowledged += sequences
        elif settlement == "requeue":
            self._requeued += sequences
        else:
            self._rejected += sequences
        if self._retained is not None:
            self._retained.settled(sequences)

    # -- earlier and later masters --------------------------------------------------------------

    def retain(self, retaining: bool) -> None:
        """The policy has changed. What was delivered before is not known."""
        if not retaining:
            self._retained = None
        elif self._retained is None:
            self._retained = RetainedDeliveries()

    def keep(self, claim: Claim) -> None:
        """Clients hold messages from an earlier master."""
        self.retain(True)
        assert self._retained is not None
        self._claimed = ranges_of(claim.sequences)
        self._retained.delivered(claim.held)
        self._acknowledged += claim.acknowledged
        self._requeued += claim.requeued
        self._rejected += claim.rejected

    def replicated(self, count: int) -> None:
        """The master says how many Settle items are in the ring."""
        if self._retained is not None:
            self._retained.replicated(count)

    def claim(self) -> Claim:
        """What the next master is to know."""
        if self._retained is None:
            return NOTHING
        return self._retained.claim(self._unsent())

    def _unsent(self) -> dict[int, Settlement]:
        found: dict[int, Settlement] = dict.fromkeys(self._acknowledged, "acknowledge")
        found.update(dict.fromkeys(self._requeued, "requeue"))
        found.update(dict.fromkeys(self._rejected, "reject"))
        return found

    # -- sending --------------------------------------------------------------------------------

    def send(self, stream: Stream) -> None:
        """Tell the master what was settled, and who may have more."""
        place = self._place
        granted: list[Subscription] = []
        for subscription in self._dirty_marked:
            if subscription.inbox:
                self._passed(subscription, subscription.pass_on())
            if subscription.top_up():
                granted.append(subscription)
        self._dirty_marked.clear()
        if self._claimed is not None:
            ranges = len(self._claimed)
            stream.put(
                ClaimDeliveries(place.queue_id, place.epoch, self._claimed),
                remote_limits.SMALL_BYTES + 16 * ranges,
            )
            self._claimed = None
        if self._acknowledged or self._requeued or self._rejected:
            item = Settle(
                place.queue_id, place.epoch, ranges_of(self._acknowledged), ranges_of(self._requeued),
                ranges_of(self._rejected),
            )  # fmt: skip
            self._settlements += 1
            if self._retained is not None:
                self._retained.sent(self._settlements, self._unsent())
            self._acknowledged, self._requeued, self._rejected = [], [], []
            ranges = len(item.acknowledged) + len(item.requeued) + len(item.rejected)
            stream.put(item, remote_limits.SMALL_BYTES + 16 * ranges)
        for subscription in granted:
            granted_up_to, taken = subscription.granted, subscription.taken_bytes
            stream.put(Credit(place.queue_id, place.epoch, subscription.key, granted_up_to, taken))
