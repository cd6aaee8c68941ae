"""Backlog of dead letters of a vhost that are not published yet.

The vhost publishes dead letters at the end of the operation that produces them. Dead letters with large
headers take long, so a turn publishes a limited number of bytes; the rest follows in later turns, in order.
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
    """Dead letters that wait, oldest first; implements `queues.queue_interface.Pumped`."""

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
        """Publish dead letters within the allowance of this turn, and leave the rest to the next turn."""
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
        """Count the messages that the allowance covers, at least one, and subtract them from it."""
        for number, message in enumerate(messages, start=1):
            size_bytes = len(message.properties)
            if size_bytes > limits.DEAD_LETTER_HEADER_BYTES:
                self._allowance_bytes -= size_bytes
                if self._allowance_bytes <= 0:
                    return number
        return len(messages)

    def pump(self) -> bool:
        """Publish more dead letters in a new turn."""
        with self._vhost.dead_letters_later():
            pass
        return False
