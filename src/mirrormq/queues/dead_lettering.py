"""Dead letters of a queue that are published and not yet confirmed.

A queue with a dead-letter exchange keeps a dead letter as unacknowledged until every target queue has
confirmed it. If a node fails in between, the message is in one of the queues, or in both.
"""

from __future__ import annotations

from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.queues.queue_settings import QueueSettings


class DeadLettering:
    """Number of dead letters under way from one queue, and its limit."""

    __slots__ = ("_limits", "under_way")

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self.under_way = 0
        """Number of dead letters that are published and not yet confirmed; the queue still holds them."""

    @property
    def crowded(self) -> bool:
        """Whether so many dead letters are unconfirmed that no message may expire."""
        return self.under_way >= self._limits.dead_letters_under_way_max

    def applies(self, settings: QueueSettings, reason: str) -> bool:
        """Return whether messages that leave the queue for this reason are dead-lettered. Too many at once
        are dropped, except expired ones, which wait."""
        return settings.dead_letter_exchange is not None and (reason == "expired" or not self.crowded)

    def began(self, count: int) -> None:
        """Count dead letters that are published."""
        self.under_way += count

    def confirmed(self, count: int) -> bool:
        """Count dead letters that every target queue has. Return whether messages may expire again."""
        crowded = self.crowded
        self.under_way -= count
        return crowded and not self.crowded
