"""What a channel's client has done, by exchange and by queue: what per-object statistics show.

Like all counting it is done per batch of messages. A channel that has been at more places than are kept
forgets those it came to first; whoever watches them sees a counter begin anew, as after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mirrormq import limits

if TYPE_CHECKING:
    from mirrormq.queues.message import Message


class ExchangeCounts:
    """What went into one exchange."""

    __slots__ = ("confirmed", "dropped", "published", "returned")

    def __init__(self) -> None:
        self.published = self.confirmed = self.returned = self.dropped = 0


class GetCounts(Protocol):
    """What is counted of each basic.get, by whoever counts."""

    got: int
    got_no_ack: int
    got_empty: int
    redelivered: int


def count_get(counts: GetCounts, message: Message | None, no_ack: bool) -> None:
    """A basic.get was answered."""
    if message is None:
        counts.got_empty += 1
        return
    if no_ack:
        counts.got_no_ack += 1
    else:
        counts.got += 1
    counts.redelivered += message.redelivered


class QueueCounts:
    """What came out of one queue."""

    __slots__ = (
        "acknowledged", "delivered", "delivered_no_ack", "got", "got_empty", "got_no_ack", "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.delivered = self.delivered_no_ack = self.redelivered = self.acknowledged = 0
        self.got = self.got_no_ack = self.got_empty = 0


class PerObjectCounters:
    """The counters of one channel, place by place."""

    __slots__ = ("_exchange_from", "exchanges", "queues", "routes")

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeCounts] = {}
        self.queues: dict[str, QueueCounts] = {}
        self.routes: dict[tuple[str, str], int] = {}
        """Messages that went from an exchange to a queue."""
        self._exchange_from: deque[tuple[int, str]] = deque(maxlen=limits.CONFIRM_CHANGES_MAX)
        """From which publish on, counted as confirms are, which exchange was published to."""

    def exchange(self, name: str) -> ExchangeCounts:
        """The counts of an exchange, from nought if there are none."""
        found = self.exchanges.get(name)
        if found is None:
            _make_room(self.exchanges)
            found = self.exchanges[name] = ExchangeCounts()
        return found

    def queue(self, name: str) -> QueueCounts:
        """The counts of a queue, from nought if there are none."""
        found = self.queues.get(name)
        if found is None:
            _make_room(self.queues)
            found = self.queues[name] = QueueCounts()
        return found

    def routed(self, exchange: str, queue: str, count: int) -> None:
        """Messages went from one to the other."""
        route = (exchange, queue)
        known = self.routes.get(route)
        if known is None:
            _make_room(self.routes)
            known = 0
        self.routes[route] = known + count

    def leave_routes(self, past: dict[tuple[str, str], int]) -> None:
        """The channel is over; what went from exchanges to queues is kept for those who look at these."""
        for route, count in self.routes.items():
            known = past.get(route)
            if known is None:
                _make_room(past, limits.VHOST_ROUTES_MAX)
                known = 0
            past[route] = known + count
        self.routes.clear()

    def count_get(self, queue: str, message: Message | None, no_ack: bool) -> None:
        """A basic.get of a queue was answered."""
        count_get(self.queue(queue), message, no_ack)

    def numbered(self, first: int, exchange: str) -> None:
        """The publishes from this number on go to an exchange."""
        if not self._exchange_from or self._exchange_from[-1][1] != exchange:
            self._exchange_from.append((first, exchange))

    def confirmed(self, finished: Sequence[tuple[int, int]], oldest_open: int) -> None:
        """Publishes were confirmed, in ascending ranges; those below `oldest_open` all have been by now. What
        is older than the changes that are remembered counts for no exchange."""
        starts, last_place = list(self._exchange_from), len(self._exchange_from) - 1
        place = 0
        for first, last in finished if starts else ():
            while first <= last:
                while place < last_place and starts[place + 1][0] <= first:
                    place += 1
                if starts[place][0] > first:
                    first = starts[place][0]
                    continue
                end = min(last, starts[place + 1][0] - 1) if place < last_place else last
                self.exchange(starts[place][1]).confirmed += end - first + 1
                first = end + 1
        while len(self._exchange_from) > 1 and self._exchange_from[1][0] <= oldest_open:
            self._exchange_from.popleft()


def _make_room(counts: dict[Any, Any], most: int = limits.CHANNEL_PLACES_MAX) -> None:
    if len(counts) >= most:
        del counts[next(iter(counts))]
