"""Putting orphans back: a batch is published to its healed queue, a few messages at a time.

Each message leaves the store when the queue has confirmed it. What a queue refuses because it is full stays,
and is tried again when the caller next says so.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.cluster.orphan_store import OrphanStore, marked
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Publisher

Publish = Callable[[list[Message], Publisher, int], None]
"""Messages, who is to be told what became of them, the number of the first."""


class OrphanRepublisher:
    """One batch on its way. A `queues.face.Publisher`."""

    def __init__(
        self, orphans: OrphanStore, number: int, publish: Publish, finished: Callable[[], None]
    ) -> None:
        self._orphans = orphans
        self.number = number
        self._publish = publish
        self._finished = finished
        self._next = 1
        self._under_way: dict[int, int] = {}
        """Publish number → sequence in the batch."""
        self._publishing = False
        self.refused_count = 0
        """Messages that the queue would not take, in this attempt."""

    def go_on(self) -> None:
        """Publish the next messages, unless some are under way. Ends when there are none, or when the queue
        has begun to refuse them. A queue may confirm while it is published to: hence the loop."""
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
        self._under_way = {first + at: message.sequence for at, message in enumerate(messages)}
        for at, message in enumerate(messages):
            self._publish([marked(message, title.node)], self, first + at)
        return True

    def confirmed(self, first: int, last: int) -> None:
        """The queue has these."""
        sequences = [self._under_way.pop(number) for number in range(first, last + 1)]
        self._orphans.settled(self.number, sequences)
        self.go_on()

    def refused(self, number: int) -> None:
        """The queue would not take this one."""
        del self._under_way[number]
        self.refused_count += 1
        self.go_on()
