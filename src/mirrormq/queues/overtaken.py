"""Messages that were on their way to a surviving consumer when the master failed (`ha-redeliver: lost`).

No client had such a message, so its next delivery is no redelivery. But a younger message may have arrived at
a consumer of another node: for that consumer the older one would come out of order. So it waits for a
consumer of a node that has had nothing younger, usually the one that it was sent to. That consumer has room:
its client holds less than it was sent. If none comes within `OVERTAKEN_WAIT_MS`, because it has left or its
client does not read, any consumer receives the message, with the redelivery mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.consumer_turns import QueueConsumer, holder_of
from mirrormq.queues.message import Message

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

OVERTAKEN_WAIT_MS = 2000
"""Time for consumers to subscribe to the new master. They do so right behind the claim of their node, within
milliseconds; a loaded machine needs up to a second."""


class OvertakenMessages:
    """Ready messages of one queue that no client has had, but that are below the mark of a surviving node."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[str, int] = {}
        """Highest sequence that clients of each surviving node have had."""

    def state(self, holder: str, sequence: int) -> None:
        """Record that clients of a surviving node have had messages up to `sequence`."""
        self._marks[holder] = sequence

    def forget(self, holder: str) -> None:
        """Forget the statement of a node that is lost."""
        self._marks.pop(holder, None)

    @property
    def highest(self) -> int:
        """Highest sequence that may be overtaken."""
        return max(self._marks.values(), default=0)

    def remain(self, queue: Queue) -> bool:
        """Return whether overtaken messages may be ready. A priority queue may have them behind its head."""
        head = queue.backing.peek()
        return head is not None and (head.sequence <= self.highest or bool(queue.settings.max_priority))

    def turn(self, queue: Queue) -> tuple[QueueConsumer, int] | None:
        """Return the consumer to serve, and that it may get one message."""
        head = queue.backing.peek()
        if head is None:
            return None
        number = head.sequence
        if number > self.highest or head.redelivered or queue.marks.covers(number):
            turn = queue.consumers.next()
            return None if turn is None else (turn[0], 1)
        own, marks = queue.intake.producer, self._marks
        consumer = queue.consumers.next_of(lambda one: marks.get(holder_of(one, own), 0) < number)
        return None if consumer is None else (consumer, 1)

    def mark(self, messages: Sequence[Message], holder: str) -> None:
        """Mark messages that are out of order for clients of this node."""
        mark = self._marks.get(holder, 0)
        for message in messages:
            if message.sequence <= mark:
                message.redelivered = True
