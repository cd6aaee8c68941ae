"""Deliveries from a queue of another node to consumers of this node, and their settlements.

A consumer without acknowledgements (`no-ack`) acknowledges towards the master: this node acknowledges a
message when it has passed it to the client. A cancelled consumer therefore loses no message in flight.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.peers.peer_limits import SMALL_BYTES
from mirrormq.queues.claims import NOTHING, Claim, Settlement
from mirrormq.queues.consumer_turns import QueueConsumer
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Subscriber
from mirrormq.remote.publish_codec import Envelopes, unpack_deliveries
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_messages import (
    ClaimDeliveries,
    Credit,
    Deliver,
    DeliveredRun,
    ItemStream,
    Settle,
    Unsubscribe,
)
from mirrormq.remote.retained import RetainedDeliveries
from mirrormq.remote.subscription import Subscription
from mirrormq.sequences.spans import Interval, intervals_of


class Deliveries:
    """Consumers of this node at one queue in one epoch, and their settlements."""

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
        "_unclaimed_up_to",
        "delivered_up_to",
    )  # fmt: skip

    def __init__(self, place: QueueRef, *, retaining: bool = False) -> None:
        self._place = place
        self._by_key: dict[int, Subscription] = {}
        self._by_consumer: dict[QueueConsumer, Subscription] = {}
        self._dirty_marked: dict[Subscription, None] = {}
        """Subscriptions whose room may have changed."""
        self._acknowledged: list[int] = []
        self._requeued: list[int] = []
        self._rejected: list[int] = []
        self._envelopes = Envelopes()
        self.delivered_up_to = 0
        """Highest sequence that consumers of this node were sent, by this master or an earlier one."""
        self._retained = RetainedDeliveries() if retaining else None
        """Deliveries and settlements to report to the next master, with `ha-redeliver: lost`."""
        self._unclaimed_up_to = 0
        self._claimed: list[Interval] | None = None
        """Claim to state to this master."""
        self._settlements = 0
        """Number of Settle items sent."""

    # -- consumers ------------------------------------------------------------------------------

    @property
    def consumers(self) -> list[Subscriber]:
        """Consumers in the order in which they joined."""
        return [subscription.consumer for subscription in self._by_key.values()]

    def join(self, subscription: Subscription) -> None:
        """Add a consumer that the master has accepted. It always counts as waiting: it reports its room,
        which may have grown during the request."""
        subscription.consumer.waiting = True
        self._dirty_marked[subscription] = None
        self._by_key[subscription.key] = subscription
        self._by_consumer[subscription.consumer] = subscription

    def leave(self, consumer: QueueConsumer, stream: ItemStream) -> None:
        """Remove a consumer, and requeue messages that were not passed to it."""
        subscription = self._by_consumer.pop(consumer, None)
        if subscription is None:
            return
        del self._by_key[subscription.key]
        self._dirty_marked.pop(subscription, None)
        self._requeued += [message.sequence for message in subscription.inbox]
        stream.put(Unsubscribe(self._place.queue_id, self._place.epoch, subscription.key))

    def mark_dirty(self, consumer: QueueConsumer) -> bool:
        """Mark a consumer that has room; False if it is not subscribed."""
        subscription = self._by_consumer.get(consumer)
        if subscription is not None:
            self._dirty_marked[subscription] = None
        return subscription is not None

    def set_active(self, key: int, active: bool) -> None:
        """Record from the master whether a consumer is the single active one."""
        if key in self._by_key:
            self._by_key[key].active = active

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Return whether the consumer receives messages."""
        subscription = self._by_consumer.get(consumer)
        return subscription is not None and subscription.active

    # -- messages -------------------------------------------------------------------------------

    def deliver(self, item: Deliver) -> None:
        """Pass messages to their consumer; requeue them if it has left."""
        subscription = self._by_key.get(item.consumer)
        for run in item.runs:
            if subscription is None:
                self._requeued += run.sequences  # not passed to any client
            else:
                self._passed(subscription, subscription.came(self.unpack(run)))
        if subscription is not None:
            self._dirty_marked[subscription] = None

    def unpack(self, run: DeliveredRun) -> list[Message]:
        """Return the messages of a run, and count them as delivered."""
        self.delivered_up_to = max(self.delivered_up_to, *run.sequences)
        return unpack_deliveries(run, self._envelopes)

    def _passed(self, subscription: Subscription, messages: list[Message]) -> None:
        if subscription.consumer.no_ack:
            self.settle("acknowledge", [message.sequence for message in messages])
        elif self._retained is not None:
            self._retained.delivered([message.sequence for message in messages], subscription.consumer)

    def got(self, messages: Sequence[Message]) -> None:
        """Retain messages that a client received by basic.get."""
        if self._retained is not None:
            self._retained.delivered([message.sequence for message in messages])

    def settle(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Record that consumers acknowledged, requeued or rejected these sequences."""
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
        """Follow the policy `ha-redeliver`. Deliveries before the change are not known."""
        if not retaining:
            self._retained = None
        elif self._retained is None:
            self._retained = RetainedDeliveries()
            self._unclaimed_up_to = self.delivered_up_to

    def delivered_before(self, sequence: int, unclaimed_up_to: int | None) -> None:
        """Record that consumers of this node had messages up to `sequence` from an earlier master."""
        self.delivered_up_to = sequence
        self._unclaimed_up_to = sequence if unclaimed_up_to is None else unclaimed_up_to

    @property
    def unclaimed_up_to(self) -> int | None:
        """Highest sequence of a delivery that the claim may lack; None if nothing is retained."""
        return None if self._retained is None else self._unclaimed_up_to

    def keep(self, claim: Claim) -> None:
        """Claim messages that clients hold from an earlier master."""
        self.retain(True)
        assert self._retained is not None
        self._claimed = intervals_of(claim.sequences)
        self._retained.delivered(claim.held)
        self._acknowledged += claim.acknowledged
        self._requeued += claim.requeued
        self._rejected += claim.rejected

    def replicated(self, count: int) -> None:
        """Forget settlements of the first `count` Settle items, which are in the ring."""
        if self._retained is not None:
            self._retained.replicated(count)

    def claim(self) -> Claim:
        """Return the claim to state to the next master."""
        if self._retained is None:
            return NOTHING
        return self._retained.claim(self._unsent())

    def _unsent(self) -> dict[int, Settlement]:
        found: dict[int, Settlement] = dict.fromkeys(self._acknowledged, "acknowledge")
        found.update(dict.fromkeys(self._requeued, "requeue"))
        found.update(dict.fromkeys(self._rejected, "reject"))
        return found

    # -- sending --------------------------------------------------------------------------------

    def send(self, stream: ItemStream) -> None:
        """Send settlements and new credit to the master."""
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
                SMALL_BYTES + 16 * ranges,
            )
            self._claimed = None
        if self._acknowledged or self._requeued or self._rejected:
            item = Settle(
                place.queue_id, place.epoch, intervals_of(self._acknowledged), intervals_of(self._requeued),
                intervals_of(self._rejected),
            )  # fmt: skip
            self._settlements += 1
            if self._retained is not None:
                self._retained.sent(self._settlements, self._unsent())
            self._acknowledged, self._requeued, self._rejected = [], [], []
            ranges = len(item.acknowledged) + len(item.requeued) + len(item.rejected)
            stream.put(item, SMALL_BYTES + 16 * ranges)
        for subscription in granted:
            granted_up_to, taken = subscription.granted, subscription.taken_bytes
            stream.put(Credit(place.queue_id, place.epoch, subscription.key, granted_up_to, taken))
