"""Work of a turn: what connections, channels and queues leave for its end.

Input of clients is handled first, and everything that can be done once for all of it waits here. The broker
then delivers, replicates, commits, confirms and writes, in this order (`Broker.turn`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from mirrormq.queues.queue_interface import Pumped

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue


class Flushed(Protocol):
    """Object with publishes that wait for the journal."""

    def flushed(self) -> None:
        """Confirm the publishes: the journal is on disk."""


class Reporter(Protocol):
    """Object with confirms to send."""

    def report(self) -> None:
        """Send the confirms."""


class TurnWork:
    """Collected work of one node. Each list is emptied item by item, so that an exception leaves the rest."""

    __slots__ = ("awaiting_flush", "awake", "reporting")

    def __init__(self) -> None:
        self.awake: deque[Queue | Pumped] = deque()
        """Queues to pump."""
        self.awaiting_flush: deque[Queue | Flushed] = deque()
        """Queues whose publishers wait for the journal."""
        self.reporting: deque[Reporter] = deque()
        """Channels with confirms to send."""

    def wake(self, queue: Queue | Pumped) -> None:
        """Pump the queue at the end of the turn."""
        if not queue.awake:
            queue.awake = True
            self.awake.append(queue)

    def awaits_flush(self, queue: Queue | Flushed) -> None:
        """Call `flushed` when the journal is on disk."""
        self.awaiting_flush.append(queue)

    def report_later(self, reporter: Reporter) -> None:
        """Call `report` at the end of the turn."""
        self.reporting.append(reporter)
