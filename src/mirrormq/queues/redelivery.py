"""What consumers may have had from an earlier master, although this one has not heard of it (G5).

A master tells its mirrors what it delivers, and may die before they hear it. The nodes of its consumers know:
they say up to where they were sent messages. And what a publisher's node sends again, because nobody
told it that it is safe, may have been with a consumer too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.queues.kept_deliveries import GIVEN_BACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrormq.queues.message import Message
    from mirrormq.queues.queue import Queue


class RedeliveryMarks:
    """The part of a Queue that marks messages as redelivered for the sake of earlier masters."""

    delivered_up_to: int
    _redelivery_up_to = 0
    _sent_again: tuple[tuple[int, int], ...] = ()
    """First and last sequence of messages that were published to an earlier master before."""
    _redelivery_highest = 0

    def delivered_before(self: Queue, sequence: int) -> None:  # type: ignore[misc]
        """Messages up to this one have been with consumers."""
        self._redelivery_up_to = max(self._redelivery_up_to, sequence)
        self._redelivery_highest = max(self._redelivery_highest, sequence)
        self._tell_delivered_before(sequence)

    def published_before(self: Queue, messages: Sequence[Message]) -> None:  # type: ignore[misc]
        """These were published together, and an earlier master may have delivered them. The next master, or
        this one after a restart, knows only how far deliveries have come, and says it of a few too many."""
        sequences = [message.sequence for message in messages if message.sequence]
        if not sequences:
            return
        first, last = min(sequences), max(sequences)
        ranges = self._sent_again
        if ranges and ranges[-1][1] + 1 == first:
            first, ranges = ranges[-1][0], ranges[:-1]
        self._sent_again = (*ranges, (first, last))[-limits.SENT_AGAIN_RANGES_MAX :]
        self._redelivery_highest = max(self._redelivery_highest, last)
        self._tell_delivered_before(last)

    def _tell_delivered_before(self: Queue, sequence: int) -> None:  # type: ignore[misc]
        self._tell_delivered(sequence)
        self.kept.delivered(GIVEN_BACK, sequence)

    def _tell_delivered(self: Queue, sequence: int) -> None:  # type: ignore[misc]
        if sequence > self.delivered_up_to:
            self.delivered_up_to = sequence
            self.backing.delivered(sequence)

    def _mark(self, messages: list[Message]) -> None:
        """Messages go out, those of the lowest number first."""
        if messages[0].sequence > self._redelivery_highest:
            return
        for message in messages:
            number = message.sequence
            if number <= self._redelivery_up_to or any(a <= number <= b for a, b in self._sent_again):
                message.redelivered = True
