"""What is counted as it happens, for whoever shows statistics: channels, connections, comings and goings.

Counting is done per batch of messages, never per message. What a channel or a connection had counted when it
ended is added to what is past in its vhost, so that totals never shrink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.per_object_counters import count_get
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.queue import Queue

if TYPE_CHECKING:
    from mirrormq.queues.message import Message
    from mirrormq.queues.queue_interface import Publisher, QueueInterface


class ChannelCounters:
    """What a channel's client has done."""

    __slots__ = (
        "acknowledged", "confirmed", "delivered", "delivered_no_ack", "dropped", "got", "got_empty",
        "got_no_ack", "published", "redelivered", "returned", "routed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.routed = 0
        """How many queues they went to, added up."""
        self.confirmed = 0
        self.returned = 0
        """Published without a queue to go to, and returned."""
        self.dropped = 0
        """The same, and not returned."""
        self.delivered = 0
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        """Asked for where there was nothing."""
        self.redelivered = 0
        """Of those delivered or got, how many had been before."""
        self.acknowledged = 0

    def add(self, other: ChannelCounters) -> None:
        """Count what another has counted."""
        self.published += other.published
        self.routed += other.routed
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_empty += other.got_empty
        self.redelivered += other.redelivered
        self.acknowledged += other.acknowledged

    def count_get(self, message: Message | None, no_ack: bool) -> None:
        """A basic.get was answered."""
        count_get(self, message, no_ack)


class Traffic:
    """Bytes, and how often some were read or written."""

    __slots__ = ("received_bytes", "received_count", "sent_bytes", "sent_count")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.received_count = 0
        self.sent_bytes = 0
        self.sent_count = 0

    def add(self, other: Traffic) -> None:
        """Count what another has counted."""
        self.received_bytes += other.received_bytes
        self.received_count += other.received_count
        self.sent_bytes += other.sent_bytes
        self.sent_count += other.sent_count


class Churn:
    """How much has come and gone on this node since it started."""

    __slots__ = (
        "channel_closed", "channel_created", "connection_closed", "connection_created", "queue_created",
        "queue_declared", "queue_deleted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connection_created = 0
        self.connection_closed = 0
        """Also those that never logged in, as RabbitMQ counts."""
        self.channel_created = 0
        self.channel_closed = 0
        self.queue_declared = 0
        """Also where there was such a queue already."""
        self.queue_created = 0
        self.queue_deleted = 0


def publish_own(
    queue: QueueInterface, messages: list[Message], publisher: Publisher | None = None, first: int = 0
) -> None:
    """Messages that no client has published: dead letters, events, copies of traced ones. Statistics of
    clients leave them out. Whatever publisher they once had did not publish them here."""
    for message in messages:
        if message.envelope.producer_ids is not None:
            message.envelope = make_envelope(message.envelope.publish, message.properties)
    queue.publish(messages, publisher, first)
    if isinstance(queue, Queue):
        queue.counters.own += len(messages)
