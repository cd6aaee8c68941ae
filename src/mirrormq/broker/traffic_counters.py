"""Traffic counters of channels and connections, for the statistics; of channels also per exchange and queue.

Counting is done per batch of messages, never per message. The counters of a closed channel or connection are
added to the past counters of its vhost, so that totals never decrease. A channel that has used more exchanges
or queues than are kept forgets the oldest ones. Their counters then start again, as after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mirrormq import limits
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.queue import Queue
from mirrormq.sequences.spans import Interval

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


class ExchangeCounts:
    """Counters of publishes to one exchange."""

    __slots__ = ("confirmed", "dropped", "published", "returned")

    def __init__(self) -> None:
        self.published = self.confirmed = self.returned = self.dropped = 0


class GetCounts(Protocol):
    """Counters of basic.get."""

    got: int
    got_no_ack: int
    got_empty: int
    redelivered: int


def count_get(counts: GetCounts, message: Message | None, no_ack: bool) -> None:
    """Count the reply to a basic.get."""
    if message is None:
        counts.got_empty += 1
        return
    if no_ack:
        counts.got_no_ack += 1
    else:
        counts.got += 1
    counts.redelivered += message.redelivered


class QueueCounts:
    """Counters of deliveries from one queue."""

    __slots__ = (
        "acknowledged", "delivered", "delivered_no_ack", "got", "got_empty", "got_no_ack", "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.delivered = self.delivered_no_ack = self.redelivered = self.acknowledged = 0
        self.got = self.got_no_ack = self.got_empty = 0


class PerObjectCounters:
    """Counters of one channel, per exchange and queue."""

    __slots__ = ("_exchange_from", "exchanges", "queues", "routes")

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeCounts] = {}
        self.queues: dict[str, QueueCounts] = {}
        self.routes: dict[tuple[str, str], int] = {}
        """Number of messages routed from an exchange to a queue."""
        self._exchange_from: deque[tuple[int, str]] = deque(maxlen=limits.CONFIRM_CHANGES_MAX)
        """First publish number of each change of the exchange, in confirm numbering."""

    def exchange(self, name: str) -> ExchangeCounts:
        """Return the counters of an exchange, created at zero if necessary."""
        counts = self.exchanges.get(name)
        if counts is None:
            _make_room(self.exchanges)
            counts = self.exchanges[name] = ExchangeCounts()
        return counts

    def queue(self, name: str) -> QueueCounts:
        """Return the counters of a queue, created at zero if necessary."""
        counts = self.queues.get(name)
        if counts is None:
            _make_room(self.queues)
            counts = self.queues[name] = QueueCounts()
        return counts

    def routed(self, exchange: str, queue: str, count: int) -> None:
        """Count messages routed from an exchange to a queue."""
        route = (exchange, queue)
        known = self.routes.get(route)
        if known is None:
            _make_room(self.routes)
            known = 0
        self.routes[route] = known + count

    def leave_routes(self, past: dict[tuple[str, str], int]) -> None:
        """Add the routes of a closed channel to `past`, which statistics of exchanges and queues use."""
        for route, count in self.routes.items():
            known = past.get(route)
            if known is None:
                _make_room(past, limits.VHOST_ROUTES_MAX)
                known = 0
            past[route] = known + count
        self.routes.clear()

    def count_get(self, queue: str, message: Message | None, no_ack: bool) -> None:
        """Count the reply to a basic.get of a queue."""
        count_get(self.queue(queue), message, no_ack)

    def numbered(self, first: int, exchange: str) -> None:
        """Record that the publishes from this number on go to an exchange."""
        if not self._exchange_from or self._exchange_from[-1][1] != exchange:
            self._exchange_from.append((first, exchange))

    def confirmed(self, finished: Sequence[Interval], oldest_open: int) -> None:
        """Count confirmed publishes, given as ascending intervals; all below `oldest_open` are confirmed
        by now. Publishes older than the recorded changes count for no exchange."""
        changes = self._exchange_from
        if len(changes) == 1 and len(finished) == 1 and changes[0][0] <= finished[0][0]:
            first, last = finished[0]
            self.exchange(changes[0][1]).confirmed += last - first + 1
            return
        starts, last_index = list(changes), len(changes) - 1
        index = 0
        for first, last in finished if starts else ():
            while first <= last:
                while index < last_index and starts[index + 1][0] <= first:
                    index += 1
                if starts[index][0] > first:
                    first = starts[index][0]
                    continue
                end = min(last, starts[index + 1][0] - 1) if index < last_index else last
                self.exchange(starts[index][1]).confirmed += end - first + 1
                first = end + 1
        while len(self._exchange_from) > 1 and self._exchange_from[1][0] <= oldest_open:
            self._exchange_from.popleft()


def _make_room(counts: dict[Any, Any], most: int = limits.CHANNEL_PLACES_MAX) -> None:
    if len(counts) >= most:
        del counts[next(iter(counts))]


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
