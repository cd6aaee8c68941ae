"""Handover from one epoch's queue object to the next one's, on the node of the clients.

Consumers move to the new object, unless they requested a cancellation (`x-cancel-on-ha-failover`). Unsettled
publishes are published again under their numbers, so that the new master detects those that it has. A
consumer may have had the others all the same, so they are marked as redelivered. Pending requests
are repeated. Deliveries that clients hold are not handed over: they are ready at the new master, and later
settlements of them are ignored. With `ha-redeliver: lost`, this node claims them from the new master and
forwards their settlements (`queues.kept_deliveries`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mirrormq.errors import AmqpError
from mirrormq.queues.claims import Claim
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import QueueInterface, Subscriber
from mirrormq.remote.pending_publishes import PendingBatch

RepeatableRequest = Callable[[QueueInterface], None]
"""Request that is repeated to the queue object that it is called with."""


@dataclass
class Handover:
    """State that the queue object of one epoch leaves to its successor."""

    producer: str = ""
    """Producer that numbered the publishes."""
    consumers: list[Subscriber] = field(default_factory=list)
    publishes: list[PendingBatch] = field(default_factory=list)
    requests: list[RepeatableRequest] = field(default_factory=list)
    delivered_up_to: int = 0
    """Highest sequence that consumers of this node were sent."""
    unclaimed_up_to: int | None = None
    """Highest sequence of a delivery that `claim` may lack; None: it may lack all."""
    claim: Claim | None = None
    """Claim of this node's clients, if they keep their deliveries."""
    begun: Callable[[QueueInterface], None] = lambda successor: None
    """Callback that receives the successor."""
    over: Callable[[], None] = lambda: None
    """Callback at the end of the handover: waiting publishers may publish without overtaking earlier
    publishes."""


def hand_over(
    handover: Handover, successor: QueueInterface, holder: str = "", *, failover: bool = True
) -> None:
    """Pass all state to the successor. Publishes go first, so that a later basic.get finds them. `holder` is
    this node with its incarnation."""
    handover.begun(successor)
    if handover.delivered_up_to:
        successor.delivered_before(handover.delivered_up_to, holder, handover.unclaimed_up_to)
    if handover.claim is not None:
        successor.keep(holder, handover.claim)
    for batch in handover.publishes:
        publisher, first = batch.publisher()
        trusted = isinstance(successor, Queue) and successor.kept.trusted
        delivered = batch.sent and not trusted
        if delivered or trusted:
            for message in batch.messages:
                message.redelivered = delivered
        successor.publish(batch.messages, publisher, first, PublishOrigin(handover.producer, batch.first))
        if delivered and isinstance(successor, Queue):
            successor.published_before(batch.messages)
    for consumer in handover.consumers:
        move(consumer, successor, failover=failover)
    for ask in handover.requests:
        ask(successor)
    handover.over()


def move(consumer: Subscriber, successor: QueueInterface, *, failover: bool) -> None:
    """Move a consumer to the successor, or cancel it."""
    if failover and consumer.cancel_on_failover:
        consumer.cancelled()
        return

    def refused(error: AmqpError) -> None:
        consumer.cancelled()

    consumer.queue = successor
    consumer.waiting = False
    successor.subscribe(consumer, lambda: None, refused)
