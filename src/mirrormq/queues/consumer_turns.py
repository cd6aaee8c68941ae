"""Turn order of a queue's consumers.

A consumer that cannot accept a message (no prefetch credit, full socket) leaves the turn order until its
channel reports credit again. The selection therefore never visits idle consumers. Higher consumer
priorities come first, and equal ones take turns. With a single active consumer the others wait until it is
gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mirrormq.queues.message import Message


class ConsumerDescription(NamedTuple):
    """Description of a consumer for listings, on any node."""

    tag: str
    node: str
    """Node to which the client is connected."""
    channel_pid: str
    connection_name: str
    channel_number: int
    peer_host: str
    peer_port: int
    user: str
    prefetch: int
    ack_required: bool
    exclusive: bool
    arguments: bytes
    """Field table with its length, as on the wire."""

    @property
    def channel_name(self) -> str:
        """Name of the channel, as operators see it."""
        return f"{self.connection_name} ({self.channel_number})"


class QueueConsumer(Protocol):
    """Interface of a consumer for its queue; channels implement it."""

    priority: int
    exclusive: bool
    no_ack: bool
    waiting: bool
    """Out of the turn order until the consumer has credit again."""

    def room(self) -> int:
        """Return the number of messages that the consumer can accept now."""

    def deliver(self, messages: list[Message]) -> None:
        """Deliver messages, at most `room` of them."""

    def cancelled(self) -> None:
        """React to the deletion of the queue."""

    def activated(self, active: bool) -> None:
        """React to becoming, or ceasing to be, the single active consumer."""

    def describe(self) -> ConsumerDescription:
        """Return the description for listings."""


def holder_of(consumer: QueueConsumer, own: str) -> str:
    """Return the node, with its incarnation, whose client a consumer is."""
    return getattr(consumer, "holder", own)


class ConsumerTurns:
    """Consumers of one queue in turn order."""

    def __init__(self, single_active: bool) -> None:
        self.single_active = single_active
        self.active: QueueConsumer | None = None
        """Single active consumer, if the queue has that mode."""
        self.all: dict[QueueConsumer, None] = {}
        """Every consumer, oldest first."""
        self._members: dict[int, OrderedDict[QueueConsumer, None]] = {}
        """Every consumer by priority, oldest first."""
        self._turns: dict[int, OrderedDict[QueueConsumer, None]] = {}
        """Consumers that probably have credit, by priority, in turn order."""
        self._priorities: list[int] = []

    def add(self, consumer: QueueConsumer) -> None:
        """Add a consumer at the end of the turn order of its priority."""
        self.all[consumer] = None
        if consumer.priority not in self._turns:
            self._turns[consumer.priority] = OrderedDict()
            self._members[consumer.priority] = OrderedDict()
            self._priorities = sorted(self._turns, reverse=True)
        self._members[consumer.priority][consumer] = None
        self._turns[consumer.priority][consumer] = None
        if self.single_active and self.active is None:
            self._activate(consumer)

    def remove(self, consumer: QueueConsumer) -> None:
        """Remove a consumer. If it was the single active one, activate the oldest of the highest priority."""
        del self.all[consumer]
        priority = consumer.priority
        self._turns[priority].pop(consumer, None)
        del self._members[priority][consumer]
        if not self._members[priority]:
            del self._turns[priority], self._members[priority]
            self._priorities.remove(priority)
        if self.active is consumer:
            self.active = None
            if self.all:
                self._activate(next(iter(self._members[self._priorities[0]])))

    def _activate(self, consumer: QueueConsumer) -> None:
        self.active = consumer
        consumer.activated(True)

    def ready_again(self, consumer: QueueConsumer) -> None:
        """Put a waiting consumer back into the turn order."""
        consumer.waiting = False
        self._turns[consumer.priority][consumer] = None

    def next(self) -> tuple[QueueConsumer, int] | None:
        """Return the consumer to serve, and how many messages it may get before the next consumer's turn."""
        if self.single_active:
            return self._next_active()
        for priority in self._priorities:
            turns = self._turns[priority]
            while turns:
                consumer = next(iter(turns))
                room = consumer.room()
                if room > 0:
                    # A single consumer takes a whole batch; several take turns message by message, as in
                    # RabbitMQ.
                    if len(turns) == 1:
                        return consumer, room
                    turns.move_to_end(consumer)
                    return consumer, 1
                del turns[consumer]
                consumer.waiting = True
        return None

    def next_of(self, suits: Callable[[QueueConsumer], bool]) -> QueueConsumer | None:
        """Return the consumer to serve among those that `suits` accepts."""
        for priority in self._priorities:
            turns = self._turns[priority]
            for consumer in [one for one in turns if self._is_served(one) and suits(one)]:
                if consumer.room() > 0:
                    turns.move_to_end(consumer)
                    return consumer
                del turns[consumer]
                consumer.waiting = True
        return None

    def _is_served(self, consumer: QueueConsumer) -> bool:
        return not self.single_active or consumer is self.active

    def _next_active(self) -> tuple[QueueConsumer, int] | None:
        consumer = self.active
        if consumer is None or consumer.waiting:
            return None
        room = consumer.room()
        if room > 0:
            return consumer, room
        self._turns[consumer.priority].pop(consumer, None)
        consumer.waiting = True
        return None
