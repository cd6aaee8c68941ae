"""A consumer of this node at a queue of another: what has come for it, and how much more may come.

The master sends what it has been *granted*. The grant follows what the consumer could take at once if it
came (its prefetch limit, less what its client holds; nothing while the client does not read), so messages
are not hoarded here while other consumers could have them. It is topped up when half of it is used, and not
for every message.

A delivery that finds no room, because the client has stopped reading meanwhile or because consumers of the
same channel share a limit, waits in the inbox.
"""

from __future__ import annotations

from collections import deque

from mirrormq import limits as broker_limits
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Subscriber
from mirrormq.remote import remote_limits


class Subscription:
    """One consumer, as its own node sees it."""

    __slots__ = (
        "_came", "_told_bytes", "active", "consumer", "gone", "granted", "inbox", "key", "taken_bytes",
    )  # fmt: skip

    def __init__(self, key: int, consumer: Subscriber) -> None:
        self.key = key
        self.consumer = consumer
        self.active = True
        self.gone = False
        """The consumer has left before the master answered."""
        self.inbox: deque[Message] = deque()
        self.granted = self._wanted()
        self.taken_bytes = 0
        """Bytes that were passed on to the client."""
        self._told_bytes = 0
        self._came = 0

    def _wanted(self) -> int:
        room = self.consumer.room()
        return remote_limits.CREDIT_MAX if room >= broker_limits.DELIVERY_BATCH else max(0, room)

    def came(self, messages: list[Message]) -> list[Message]:
        """Messages have come; returns those that were passed on."""
        self._came += len(messages)
        if not self.inbox and self.consumer.room() >= len(messages):
            self._pass_on(messages)
            return messages
        self.inbox.extend(messages)
        return self.pass_on()

    def pass_on(self) -> list[Message]:
        """Give the consumer what it has room for."""
        passed: list[Message] = []
        while self.inbox and (room := self.consumer.room()) > 0:
            messages = [self.inbox.popleft() for _ in range(min(room, len(self.inbox)))]
            self._pass_on(messages)
            passed += messages
        return passed

    def _pass_on(self, messages: list[Message]) -> None:
        self.taken_bytes += sum([len(message.frames) for message in messages])
        self.consumer.deliver(messages)

    def top_up(self) -> bool:
        """Grant more, or tell that bytes were passed on, if that is worth a word; True if so."""
        window = self._wanted() - len(self.inbox)
        more = self._came + window > self.granted and self.granted - self._came <= window // 2
        if more:
            self.granted = self._came + window
        elif self.taken_bytes - self._told_bytes < remote_limits.DELIVERED_BYTES_MAX // 4:
            return False
        self._told_bytes = self.taken_bytes
        return True
