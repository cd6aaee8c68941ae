"""Whose turn it is: the consumers of one queue.

A consumer that cannot take a message now (its prefetch is used up, its socket is full) leaves the
turn order until its channel says that there is room again; so choosing never walks over the idle.
Higher consumer priorities come first, equals take turns, and with a single active consumer the
others wait until the active one is gone.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

from mirrormq.queues.message import Message


class ConsumerDescription(NamedTuple):
    """A consumer as listings show it, on whatever node they are asked for."""

    tag: str
    node: str
    """Where its client is connected."""
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
    """A field table with its length, as on the wire."""

    @property
    def channel_name(self) -> str:
        """What operators call the channel."""
        return f"{self.connection_name} ({self.channel_number})"


class QueueConsumer(Protocol):
    """What a queue knows of a consumer; channels implement it."""

    priority: int
    exclusive: bool
    no_ack: bool
    waiting: bool
    """Out of the turn order until it has room again."""

    def room(self) -> int:
        """How many messages it can take now."""

    def deliver(self, messages: list[Message]) -> None:
        """Hand over messages, at most `room` of them."""

    def cancelled(self) -> None:
        """The queue is gone."""

    def activated(self, active: bool) -> None:
        """It became the single active consumer, or ceased to be."""

    def describe(self) -> ConsumerDescription:
        """Who it is."""


class ConsumerTurns:
    """The consumers of one queue in turn order."""

    def __init__(self, single_active: bool) -> None:
        self.single_active = single_active
        self.active: QueueConsumer | None = None
        """The single active consumer, where that is asked for."""
        self.all: dict[QueueConsumer, None] = {}
        """Every consumer, oldest first."""
        self._members: dict[int, OrderedDict[QueueConsumer, None]] = {}
        """The same by priority."""
        self._turns: dict[int, OrderedDict[QueueConsumer, None]] = {}
        """Those that have room as far as is known, by priority, in turn order."""
        self._priorities: list[int] = []

    def add(self, consumer: QueueConsumer) -> None:
        """A new consumer takes the last turn of its priority."""
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
        """A consumer goes; the oldest of the rest becomes the active one if it was that."""
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
        """A waiting consumer has room."""
        consumer.waiting = False
        self._turns[consumer.priority][consumer] = None

    def next(self) -> tuple[QueueConsumer, int] | None:
        """The consumer to serve, and how many messages it may get before the next one's turn."""
        if self.single_active:
            return self._next_active()
        for priority in self._priorities:
            turns = self._turns[priority]
            while turns:
                consumer = next(iter(turns))
                room = consumer.room()
                if room > 0:
                    if len(turns) == 1:
                        return consumer, room
                    turns.move_to_end(consumer)
                    return consumer, 1
                del turns[consumer]
                consumer.waiting = True
        return None

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
