"""Subscription of this node's consumer to a queue on another node: deliveries and flow control.

The master sends as much as it was *granted*. The grant follows what the consumer could take at once: its
prefetch limit less what its client holds, and nothing while the client does not read. Messages therefore do
not pile up here while other consumers could have them. The grant is topped up when half of it is used, not
for every message.

A delivery waits in the inbox if it finds no room. The client may have stopped reading meanwhile, or
consumers of the same channel share a limit.
"""

from __future__ import annotations

from collections import deque

from mirrormq import limits as broker_limits
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Subscriber
from mirrormq.remote.remote_limits import RemoteLimits


class Subscription:
    """Remote consumer, as its own node sees it."""

    __slots__ = (
        "_came", "_limits", "_reported_bytes", "active", "consumer", "gone", "granted", "inbox", "key",
        "taken_bytes",
    )  # fmt: skip

    def __init__(self, key: int, consumer: Subscriber, limits: RemoteLimits) -> None:
        self._limits = limits
        self.key = key
        self.consumer = consumer
        self.active = True
        self.gone = False
        """Whether the consumer left before the master replied."""
        self.inbox: deque[Message] = deque()
        self.granted = self._wanted()
        self.taken_bytes = 0
        """Bytes that were passed on to the client."""
        self._reported_bytes = 0
        self._came = 0

    def _wanted(self) -> int:
        room = self.consumer.room()
        return self._limits.credit_max if room >= broker_limits.DELIVERY_BATCH else max(0, room)

    def came(self, messages: list[Message]) -> list[Message]:
        """Accept deliveries from the master. Return those that were passed on to the client."""
        self._came += len(messages)
        if not self.inbox and self.consumer.room() >= len(messages):
            self._pass_on(messages)
            return messages
        self.inbox.extend(messages)
        return self.pass_on()

    def pass_on(self) -> list[Message]:
        """Pass on deliveries from the inbox while the consumer has room."""
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
        """Return whether a larger grant, or the bytes passed on, must be reported to the master; update both
        if so."""
        window = self._wanted() - len(self.inbox)
        more = self._came + window > self.granted and self.granted - self._came <= window // 2
        if more:
            self.granted = self._came + window
        elif self.taken_bytes - self._reported_bytes < self._limits.delivered_bytes_max // 4:
            return False
        self._reported_bytes = self.taken_bytes
        return True
