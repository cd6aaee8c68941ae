"""Dead letters of a vhost that wait to be published.

They are published at the end of the operation that they die of. Those with large headers take long, so a turn
publishes a limited amount of them; the rest follows in later turns, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.broker.dead_letters import dead_letter
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import OnDeadLettered

if TYPE_CHECKING:
    from mirrormq.broker.vhost import Vhost


class DeadLetterBacklog:
    """A queue of dead letters, oldest first; implements `queues.face.Pumped`."""

    deleted = False

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._waiting: deque[tuple[Queue, Sequence[Message], str, OnDeadLettered]] = deque()
        self.awake = False
        self._turn = -1
        self._allowance_bytes = 0
        """Bytes of large headers that may still be published in this turn."""

    def add(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        self._waiting.append((queue, messages, reason, on_dead_lettered))

    def publish(self) -> None:
        """Publish what this turn may; the end of the next turn goes on with the rest."""
        if self._turn != self._vhost.broker.turns:
            self._turn = self._vhost.broker.turns
            self._allowance_bytes = limits.DEAD_LETTERS_HEADER_BYTES_MAX
        while self._waiting:
            if self._allowance_bytes <= 0:
                self._vhost.broker.wake(self)
                return
            queue, messages, reason, on_dead_lettered = self._waiting.popleft()
            count = self._affordable(messages)
            if count < len(messages):
                self._waiting.appendleft((queue, messages[count:], reason, on_dead_lettered))
            dead_letter(self._vhost, queue, messages[:count], reason, on_dead_lettered)

    def _affordable(self, messages: Sequence[Message]) -> int:
        """Count the messages that the allowance is enough for, one at least, and take them off it."""
        for number, message in enumerate(messages, start=1):
            size_bytes = len(message.properties)
            if size_bytes > limits.DEAD_LETTER_HEADER_BYTES:
                self._allowance_bytes -= size_bytes
                if self._allowance_bytes <= 0:
                    return number
        return len(messages)

    def pump(self) -> bool:
        """Go on in a new turn."""
        with self._vhost.dead_letters_later():
            pass
        return False
