"""Confirm tracker: publishes of one queue that wait until they are safe.

The condition depends on the queue and the message:

    queue on one node      transient: at once                       persistent and durable: after the flush
    mirrored queue         transient: every synchronised mirror     persistent and durable: every disk
                           has received it                          has it

In a mirrored queue a publish becomes a numbered operation, and the ring reports up to which operation
either condition holds. Both numbers only grow, so that waiting publishes form a FIFO.
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
    """Last operation that the publishes became."""
    publisher: Publisher
    first: int
    """Number that the publisher gave its first publish."""
    last: int
    origin: PublishOrigin
    """Publishing node, and the number that it gave the first publish."""
    messages: Sequence[Message] = ()
    """Messages that wait, if clients of this node published them to an earlier master and they had
    arrived. Their operation in the ring, if any, is unknown."""


class NullPublisher:
    """Null object: ignores confirms and refusals."""

    def confirmed(self, first: int, last: int) -> None: ...

    def refused(self, number: int) -> None: ...


NO_PUBLISHER = NullPublisher()


class ConfirmTracker:
    """Waiting publishes of one queue."""

    __slots__ = ("_outside", "_undurable", "_unflushed", "_unreceived")

    def __init__(self) -> None:
        self._unflushed: list[tuple[Publisher, int, int]] = []
        self._unreceived: deque[WaitingConfirms] = deque()
        self._undurable: deque[WaitingConfirms] = deque()
        self._outside: list[Callable[[], None]] = []
        """Publishers that wait for room, because too many publishes are unconfirmed."""

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` when fewer publishes are unconfirmed."""
        self._outside.append(resume)

    def resume_publishers(self) -> None:
        """Resume the publishers that wait for room."""
        if self._outside:
            outside, self._outside = self._outside, []
            for resume in outside:
                resume()

    def after_flush(self, publisher: Publisher, first: int, last: int) -> bool:
        """Confirm when everything written so far is on this node's disk. Return whether these are the first
        publishes that wait: the queue must request a call of `flushed`."""
        self._unflushed.append((publisher, first, last))
        return len(self._unflushed) == 1

    def after_replication(self, waiting: WaitingConfirms, *, durable: bool) -> None:
        """Confirm when the ring has completed the operation."""
        (self._undurable if durable else self._unreceived).append(waiting)

    def flushed(self) -> None:
        """Confirm publishes after a flush: everything written so far is on this node's disk."""
        waiting, self._unflushed = self._unflushed, []
        for publisher, first, last in waiting:
            publisher.confirmed(first, last)

    def completed(self, received: int, durable: int) -> None:
        """Confirm publishes up to the operations that the ring has received and made durable."""
        for line, mark in ((self._unreceived, received), (self._undurable, durable)):
            while line and line[0].operation <= mark:
                waiting = line.popleft()
                waiting.publisher.confirmed(waiting.first, waiting.last)

    def alone(self) -> bool:
        """Wait for this node's disk only, because the queue no longer has a ring. Return whether the queue
        must request a call of `flushed`."""
        undurable, self._undurable = self._undurable, deque()
        awaits_flush = False
        for waiting in undurable:
            if self.after_flush(waiting.publisher, waiting.first, waiting.last):
                awaits_flush = True
        self._confirm(self._unreceived)
        self.resume_publishers()
        return awaits_flush

    def forget(self) -> None:
        """Confirm everything: the queue is deleted."""
        self.flushed()
        self._confirm(self._unreceived)
        self._confirm(self._undurable)
        self.resume_publishers()

    def _confirm(self, line: deque[WaitingConfirms]) -> None:
        while line:
            waiting = line.popleft()
            waiting.publisher.confirmed(waiting.first, waiting.last)

    def take_all(self) -> list[WaitingConfirms]:
        """Return and remove the publishes that wait for the ring: another node is now the queue's master."""
        waiting = [*self._unreceived, *self._undurable]
        self._unreceived.clear()
        self._undurable.clear()
        self.resume_publishers()
        return waiting
