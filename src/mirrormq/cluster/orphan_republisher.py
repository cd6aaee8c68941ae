"""Orphan republisher: publishes a batch of orphans to its healed queue, a few messages at a time.

Each message leaves the store when the queue has confirmed it. Messages that a full queue refuses stay in
the store, and the caller's next attempt publishes them again.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.cluster.orphan_store import OrphanStore, marked
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Publisher

Publish = Callable[[list[Message], Publisher, int], None]
"""Function that publishes messages, given the publisher to notify and the number of the first message."""


class OrphanRepublisher:
    """Republisher of one batch. Implements `queues.queue_interface.Publisher`."""

    def __init__(
        self, orphans: OrphanStore, number: int, publish: Publish, finished: Callable[[], None]
    ) -> None:
        self._orphans = orphans
        self.number = number
        self._publish = publish
        self._finished = finished
        self._next = 1
        self._under_way: dict[int, int] = {}
        """Sequence in the batch, by publish number."""
        self._publishing = False
        self.refused_count = 0
        """Messages that the queue refused in this attempt."""

    def resume(self) -> None:
        """Publish the next messages, unless some are unconfirmed. Finish when none is left, or after a
        refusal.

        The loop is needed because a queue may confirm a message during its publish.
        """
        if self._publishing:
            return
        self._publishing = True
        try:
            while not self._under_way and self._publish_some():
                pass
        finally:
            self._publishing = False

    def _publish_some(self) -> bool:
        title = self._orphans.titles.get(self.number)
        messages = self._orphans.read(self.number) if title is not None and not self.refused_count else []
        if title is None or not messages:
            self._finished()
            return False
        first, self._next = self._next, self._next + len(messages)
        self._under_way = {number: message.sequence for number, message in enumerate(messages, first)}
        for number, message in enumerate(messages, first):
            self._publish([marked(message, title.node)], self, number)
        return True

    def confirmed(self, first: int, last: int) -> None:
        """Remove messages from the store that the queue has confirmed."""
        sequences = [self._under_way.pop(number) for number in range(first, last + 1)]
        self._orphans.settled(self.number, sequences)
        self.resume()

    def refused(self, number: int) -> None:
        """Count a message that the queue has refused."""
        del self._under_way[number]
        self.refused_count += 1
        self.resume()
