"""Publishers that wait until what they published is safe.

What safe means depends on the queue and the message:

    queue on one node      transient: as soon as it is there        persistent and durable: after the flush
    mirrored queue         transient: every mirror that counts      persistent and durable: every disk
                           has received it                          has it

In a mirrored queue a publish has become an operation with a number, and the ring says up to which number
either has come true. Both grow, so those who wait stand in line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.queue_interface import Publisher


class WaitingConfirms(NamedTuple):
    """Publishes that wait for the ring."""

    operation: int
    """The last operation that they became."""
    publisher: Publisher
    first: int
    """The publisher's number of the first one …"""
    last: int
    origin: PublishOrigin
    """… and the one that its node gave it."""
    messages: Sequence[Message] = ()
    """What is waited for, if it was published by this node's clients to an earlier master and had arrived:
    where it is in the ring's history, if at all, cannot be told."""


class NullPublisher:
    """A publisher that does not want to know."""

    def confirmed(self, first: int, last: int) -> None:
        """So it is safe."""

    def refused(self, number: int) -> None:
        """So it is not."""


NOBODY = NullPublisher()


class ConfirmTracker:
    """Those who wait, for one queue."""

    def __init__(self, awaits_flush: Callable[[], None]) -> None:
        self._awaits_flush = awaits_flush
        """Asks for `flushed` after the next group commit."""
        self._unflushed: list[tuple[Publisher, int, int]] = []
        self._unreceived: deque[WaitingConfirms] = deque()
        self._undurable: deque[WaitingConfirms] = deque()
        self._outside: list[Callable[[], None]] = []
        """Publishers that wait for room, because too much of what was published is not safe yet."""

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call this when less is unsafe."""
        self._outside.append(go_on)

    def resume_publishers(self) -> None:
        """There is room."""
        if self._outside:
            outside, self._outside = self._outside, []
            for go_on in outside:
                go_on()

    def after_flush(self, publisher: Publisher, first: int, last: int) -> None:
        """Confirm when what is written now is on this node's disk."""
        if not self._unflushed:
            self._awaits_flush()
        self._unflushed.append((publisher, first, last))

    def after_replication(self, waiting: WaitingConfirms, *, durable: bool) -> None:
        """Confirm when the ring has come that far."""
        (self._undurable if durable else self._unreceived).append(waiting)

    def flushed(self) -> None:
        """Everything written so far is on this node's disk."""
        waiting, self._unflushed = self._unflushed, []
        for publisher, first, last in waiting:
            publisher.confirmed(first, last)

    def completed(self, received: int, durable: int) -> None:
        """How far the ring has come."""
        for line, mark in ((self._unreceived, received), (self._undurable, durable)):
            while line and line[0].operation <= mark:
                waiting = line.popleft()
                waiting.publisher.confirmed(waiting.first, waiting.last)

    def alone(self) -> None:
        """There is no ring any more: what waited for other disks waits for this one."""
        undurable, self._undurable = self._undurable, deque()
        for waiting in undurable:
            self.after_flush(waiting.publisher, waiting.first, waiting.last)
        self._confirm(self._unreceived)
        self.resume_publishers()

    def forget(self) -> None:
        """The queue is deleted: nobody needs to wait for what nobody will get."""
        self.flushed()
        self._confirm(self._unreceived)
        self._confirm(self._undurable)
        self.resume_publishers()

    def _confirm(self, line: deque[WaitingConfirms]) -> None:
        while line:
            waiting = line.popleft()
            waiting.publisher.confirmed(waiting.first, waiting.last)

    def take_all(self) -> list[WaitingConfirms]:
        """Another node is the queue's master now: those who wait for the ring wait for it there."""
        found = [*self._unreceived, *self._undurable]
        self._unreceived.clear()
        self._undurable.clear()
        self.resume_publishers()
        return found
