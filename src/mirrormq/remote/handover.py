"""From one master's tenure to the next: what the old object knew that the new one must know.

Consumers of this node's channels go over to the new object, unless they asked to be told instead
(`x-cancel-on-ha-failover`). Publishes without a final word are published again, under the numbers they had,
so that the new master knows those it has already; those that it has not may have been with a consumer all the
same, and say so (G5). Questions without an answer are asked again. What consumers hold is not handed over: at
the new master it is ready again, and what they say about it counts for nothing. With `ha-redeliver: lost` it
is claimed from the new master, and what they say about it is passed on (`queues.kept_deliveries`).
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

Question = Callable[[QueueInterface], None]
"""Asks the queue it is given."""


@dataclass
class Handover:
    """What one tenure leaves to the next."""

    producer: str = ""
    """Whose numbers the publishes have."""
    consumers: list[Subscriber] = field(default_factory=list)
    publishes: list[PendingBatch] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    delivered_up_to: int = 0
    """What this node's consumers were sent, up to here."""
    claim: Claim | None = None
    """What this node's clients hold, if they keep it."""
    begun: Callable[[QueueInterface], None] = lambda successor: None
    """Told who has taken over."""
    over: Callable[[], None] = lambda: None
    """Told when everything is handed over: those who waited for room may publish, and overtake nobody."""


def hand_over(
    handover: Handover, successor: QueueInterface, holder: str = "", *, failover: bool = True
) -> None:
    """Let the next tenure begin. Publishes go first, so that a get that followed them finds them. `holder` is
    the name of this node, in its incarnation."""
    handover.begun(successor)
    if handover.claim is not None:
        successor.keep(holder, handover.claim)
    if handover.delivered_up_to:
        successor.delivered_before(handover.delivered_up_to)
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
    for ask in handover.questions:
        ask(successor)
    handover.over()


def move(consumer: Subscriber, successor: QueueInterface, *, failover: bool) -> None:
    """A consumer goes over to the new object, or is cancelled."""
    if failover and consumer.cancel_on_failover:
        consumer.cancelled()
        return

    def refused(error: AmqpError) -> None:
        consumer.cancelled()

    consumer.queue = successor
    consumer.waiting = False
    successor.subscribe(consumer, lambda: None, refused)
