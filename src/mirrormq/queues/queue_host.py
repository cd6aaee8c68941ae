"""Interface of the vhost for its queues, and the counters of a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mirrormq.clock import Clock
from mirrormq.queues.message import Message
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.queues.turn_work import TurnWork
from mirrormq.ranges.range_request import Answered, RangeRequest, Refused

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

OnDeadLettered = Callable[[Sequence[Message]], None]
"""Called when dead letters have reached their target: their queue need not keep them any longer."""


class QueueHost(Protocol):
    """Interface of the vhost that a queue requires."""

    clock: Clock
    work: TurnWork
    limits: QueueLimits

    def dead_letter(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        """Publish messages to the queue's dead-letter exchange. Report those that are safe there, or
        dropped."""

    def unused(self, queue: Queue) -> None:
        """React to an auto-delete queue without consumers, or to an elapsed `expires`."""

    def consumed(self, queue: Queue) -> None:
        """React to the first consumer of an auto-delete queue."""

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Reply to a request about ranges or leases."""


class QueueCounters:
    """Counters of a queue's messages since this node became its master."""

    __slots__ = (
        "acknowledged", "delivered", "delivered_no_ack", "got", "got_empty", "got_no_ack", "own", "published",
        "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        """Number of publishes, including refused ones."""
        self.own = 0
        """Number of publishes that do not come from a client."""
        self.delivered = 0
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        self.redelivered = 0
        """Number of delivered or fetched messages that had been delivered before."""
        self.acknowledged = 0
