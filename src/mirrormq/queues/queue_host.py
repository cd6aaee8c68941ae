"""What a queue needs of the vhost it lives in, and what it counts for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mirrormq.clock import Clock
from mirrormq.queues.message import Message
from mirrormq.ranges.range_request import Answered, RangeRequest, Refused

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

OnDeadLettered = Callable[[Sequence[Message]], None]
"""Dead letters have reached where they go to: nobody needs to keep them any more."""


class QueueHost(Protocol):
    """What a queue needs of the vhost it lives in."""

    clock: Clock

    def wake(self, queue: Queue) -> None:
        """Call `pump` at the end of this turn."""

    def awaits_flush(self, queue: Queue) -> None:
        """Call `flushed` after the next group commit."""

    def dead_letter(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        """Publish to the queue's dead-letter exchange; say which of them are safe there, or gone."""

    def unused(self, queue: Queue) -> None:
        """An auto-delete queue lost its last consumer, or `expires` has run out."""

    def consumed(self, queue: Queue) -> None:
        """An auto-delete queue has a consumer."""

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Answer a question about ranges or leases."""


class QueueCounters:
    """What has happened to a queue's messages since this node is its master."""

    __slots__ = (
        "acknowledged", "delivered", "delivered_no_ack", "got", "got_empty", "got_no_ack", "own", "published",
        "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.published = 0
        """Also those that it would not take."""
        self.own = 0
        """How many of them no client has published."""
        self.delivered = 0
        self.delivered_no_ack = 0
        self.got = 0
        self.got_no_ack = 0
        self.got_empty = 0
        self.redelivered = 0
        """Of those delivered or got, how many had been before."""
        self.acknowledged = 0
