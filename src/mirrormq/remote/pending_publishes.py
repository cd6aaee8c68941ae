"""Pending publishes: kept on the publisher's node, to be sent again, until the master settles them.

Publisher-survives-master (G4) rests on them. Batches are numbered in the order of publishing and mostly
settled whole in that order. But a persistent message may be settled after a later transient one, so any part
of any batch may be settled first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from mirrormq import limits as broker_limits
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue_interface import Publisher


class PendingBatch:
    """Messages that were published together."""

    __slots__ = (
        "_first_at_publisher", "_open", "_publisher", "first", "last", "messages", "sent", "size_bytes",
    )  # fmt: skip

    def __init__(
        self, first: int, messages: list[Message], publisher: Publisher | None, first_at_publisher: int
    ) -> None:
        self.first = first
        self.last = first + len(messages) - 1
        self.messages = messages
        self.size_bytes = len(messages) * broker_limits.MESSAGE_OVERHEAD_BYTES + sum(
            [message.body_size for message in messages]
        )
        self.sent = True
        """Whether a master may have received the batch; otherwise it has never left this node."""
        self._publisher = publisher
        self._first_at_publisher = first_at_publisher
        self._open: set[int] | None = None
        """Unsettled numbers; None while all of them are unsettled."""

    @property
    def settled(self) -> bool:
        """Whether all of its messages are settled."""
        return self._open is not None and not self._open

    @property
    def envelope(self) -> Envelope | None:
        """Envelope of the first and the last message, None if these differ.

        A batch with such an envelope may travel in a run with its neighbours (`remote.publish_codec`).
        """
        first, last = self.messages[0].envelope, self.messages[-1].envelope
        return first if first is last else None

    def settle(self, first: int, last: int) -> None:
        """Settle messages, some of which may be settled already."""
        if self._open is None:
            if first <= self.first and last >= self.last:
                self._open = set()
                self._confirm(self.first, self.last)
                return
            self._open = set(range(self.first, self.last + 1))
        for number in range(max(first, self.first), min(last, self.last) + 1):
            if number in self._open:
                self._open.discard(number)
                self._confirm(number, number)

    def refuse(self, number: int) -> None:
        """Record that the queue refused a message."""
        if self._open is None:
            self._open = set(range(self.first, self.last + 1))
        if number in self._open:
            self._open.discard(number)
            if self._publisher is not None:
                self._publisher.refused(self._first_at_publisher + number - self.first)

    def _confirm(self, first: int, last: int) -> None:
        if self._publisher is not None:
            offset = self._first_at_publisher - self.first
            self._publisher.confirmed(first + offset, last + offset)

    def rest(self) -> Iterator[PendingBatch]:
        """Yield the unsettled messages as batches without settled ones."""
        if self._open is None:
            yield self
            return
        start = None
        for number in range(self.first, self.last + 2):
            if number in self._open:
                start = number if start is None else start
            elif start is not None:
                messages = self.messages[start - self.first : number - self.first]
                yield PendingBatch(
                    start, messages, self._publisher, self._first_at_publisher + start - self.first
                )
                start = None

    def publisher(self) -> tuple[Publisher | None, int]:
        """Return the publisher, and its number of the first message."""
        return self._publisher, self._first_at_publisher


class PendingPublishes:
    """Pending batches of one queue, oldest first."""

    __slots__ = ("_batches", "count", "size_bytes")

    def __init__(self) -> None:
        self._batches: deque[PendingBatch] = deque()
        self.count = 0
        self.size_bytes = 0

    def add(self, batch: PendingBatch) -> None:
        self._batches.append(batch)
        self.count += len(batch.messages)
        self.size_bytes += batch.size_bytes

    def settle(self, first: int, last: int) -> None:
        """Settle publishes `first` to `last`."""
        batches = self._batches
        while batches and batches[0].first >= first and batches[0].last <= last:
            batches[0].settle(first, last)
            self._drop_head()
        for batch in batches:
            if batch.first > last:
                break
            if batch.last >= first:
                batch.settle(first, last)
        self._drop_settled()

    def refuse(self, number: int) -> None:
        """Record that the queue refused one publish."""
        for batch in self._batches:
            if batch.first <= number <= batch.last:
                batch.refuse(number)
                break
        self._drop_settled()

    def _drop_settled(self) -> None:
        while self._batches and self._batches[0].settled:
            self._drop_head()

    def _drop_head(self) -> None:
        batch = self._batches.popleft()
        self.count -= len(batch.messages)
        self.size_bytes -= batch.size_bytes

    def take_all(self) -> list[PendingBatch]:
        """Remove and return everything that is unsettled, oldest first."""
        unsettled = [rest for batch in self._batches for rest in batch.rest()]
        self._batches.clear()
        self.count = self.size_bytes = 0
        return unsettled
