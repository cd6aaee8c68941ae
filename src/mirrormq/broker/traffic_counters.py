"""Traffic counters of channels and connections, and churn counters of a node, for the statistics.

Counting is done per batch of messages, never per message. The counters of a closed channel or connection are
added to the past counters of its vhost, so that totals never decrease.
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
    """Counters of one channel."""

    __slots__ = (
        "acknowledged", "confirmed", "delivered", "delivered_no_ack", "dropped", "got", "got_empty",
        "got_no_ack", "published", "redelivered", "returned", "routed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        self.routed = 0
        """Sum over all published messages of the number of queues that each was routed to."""
        self.confirmed = 0
        self.returned = 0
        """Published messages without a target queue that were returned."""
        self.dropped = 0
        """Published messages without a target queue that were not returned."""
        self.delivered = 0
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        """basic.get requests to an empty queue."""
        self.redelivered = 0
        """Delivered or got messages that carried the redelivered flag."""
        self.acknowledged = 0

    def add(self, other: ChannelCounters) -> None:
        """Add the counters of another channel."""
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
        """Count a basic.get that was answered."""
        count_get(self, message, no_ack)


class Traffic:
    """Bytes read and written on a connection, and the number of reads and writes."""

    __slots__ = ("received_bytes", "received_count", "sent_bytes", "sent_count")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.received_count = 0
        self.sent_bytes = 0
        self.sent_count = 0

    def add(self, other: Traffic) -> None:
        """Add the counters of another connection."""
        self.received_bytes += other.received_bytes
        self.received_count += other.received_count
        self.sent_bytes += other.sent_bytes
        self.sent_count += other.sent_count


def publish_own(
    queue: QueueInterface, messages: list[Message], publisher: Publisher | None = None, first: int = 0
) -> None:
    """Publish messages of the broker itself: dead letters, events, trace copies. Client statistics leave them
    out. They lose their publish ids, because the original publisher did not publish them here."""
    for message in messages:
        if message.envelope.producer_ids is not None:
            message.envelope = make_envelope(message.envelope.publish, message.properties)
    queue.publish(messages, publisher, first)
    if isinstance(queue, Queue):
        queue.counters.own += len(messages)
