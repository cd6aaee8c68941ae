"""Redelivery marks: messages that consumers may have had from an earlier master (redelivery-marked).

A master replicates its deliveries, and may fail before the mirrors receive them. Two other sources fill this
gap. The nodes of consumers report the highest sequence that was delivered to them. A publisher's node marks
publishes that it sends again because the earlier master did not confirm them: a consumer may have had them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq import limits
from mirrormq.queues.message import Message
from mirrormq.sequences.spans import Interval


class RedeliveryMarks:
    """Sequences of one queue that consumers have had, or may have had."""

    __slots__ = ("_delivered_before", "_sent_again", "delivered_up_to", "highest")

    def __init__(self) -> None:
        self.delivered_up_to = 0
        """Highest sequence that consumers have had since this node has a copy."""
        self.highest = 0
        """Highest sequence that an earlier master may have delivered; no message above it is marked."""
        self._delivered_before = 0
        self._sent_again: tuple[Interval, ...] = ()
        """Intervals (first and last sequence) of messages that an earlier master may have received."""

    def delivered_before(self, sequence: int) -> None:
        """Record that consumers have had messages up to `sequence` from an earlier master."""
        self._delivered_before = max(self._delivered_before, sequence)
        self.highest = max(self.highest, sequence)

    def published_before(self, messages: Sequence[Message]) -> int:
        """Record messages, published together, that an earlier master may have delivered. Return the highest
        sequence among them; 0 if the queue stored none of them."""
        sequences = [message.sequence for message in messages if message.sequence]
        if not sequences:
            return 0
        first, last = min(sequences), max(sequences)
        ranges = self._sent_again
        if ranges and ranges[-1][1] + 1 == first:
            first, ranges = ranges[-1][0], ranges[:-1]
        ranges = (*ranges, Interval(first, last))
        if len(ranges) > limits.SENT_AGAIN_RANGES_MAX:
            # Join the two oldest: a mark too many is allowed, a delivery again without its mark is not (G5,
            # redelivery-marked).
            ranges = (Interval(ranges[0][0], ranges[1][1]), *ranges[2:])
        self._sent_again = ranges
        self.highest = max(self.highest, last)
        return last

    def mark(self, messages: Sequence[Message]) -> None:
        """Mark messages that are about to be delivered, if an earlier master may have delivered them."""
        for message in messages:
            if self.covers(message.sequence):
                message.redelivered = True

    def covers(self, sequence: int) -> bool:
        """Return whether an earlier master may have delivered the message."""
        return sequence <= self._delivered_before or any(a <= sequence <= b for a, b in self._sent_again)
