"""Redelivery marks: messages that consumers may have had from an earlier master (guarantee G5).

A master replicates its deliveries, and may fail before the mirrors receive them. Two other sources fill this
gap. The nodes of consumers report the highest sequence that was delivered to them. A publisher's node marks
publishes that it sends again because the earlier master did not confirm them: a consumer may have had them.
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
    """Redelivery marks of Queue (mixin)."""

    delivered_up_to: int
    _redelivery_up_to = 0
    _sent_again: tuple[tuple[int, int], ...] = ()
    """Intervals (first and last sequence) of messages that were already published to an earlier master."""
    _redelivery_highest = 0

    def delivered_before(self: Queue, sequence: int) -> None:  # type: ignore[misc]
        """Record that consumers have had messages up to `sequence` from an earlier master."""
        self._redelivery_up_to = max(self._redelivery_up_to, sequence)
        self._redelivery_highest = max(self._redelivery_highest, sequence)
        self._tell_delivered_before(sequence)

    def published_before(self: Queue, messages: Sequence[Message]) -> None:  # type: ignore[misc]
        """Record messages, published together, that an earlier master may have delivered. The next master, or
        this one after a restart, knows only the highest delivered sequence. It therefore marks a few messages
        too many."""
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
        """Mark messages that are about to be delivered as redelivered; the lowest sequence is first."""
        if messages[0].sequence > self._redelivery_highest:
            return
        for message in messages:
            number = message.sequence
            if number <= self._redelivery_up_to or any(a <= number <= b for a, b in self._sent_again):
                message.redelivered = True
