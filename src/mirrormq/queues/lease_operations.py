"""The part of a Queue that leases use: messages leave it by number, and return, or are done with.

What a lease takes must be as safe as a confirmed publish first. An unsafe message may vanish with this master
and be published again to the next one, under another number: whoever had read it would have it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.kept_deliveries import GIVEN_BACK
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.ranges.spans import Span

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

NO_ORIGIN = PublishOrigin("", 0)


class _Told:
    """A publisher that only wants to hear that everything so far is safe."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def confirmed(self, first: int, last: int) -> None:
        """So it is."""
        self._told()

    def refused(self, number: int) -> None:
        """It published nothing that could be refused."""


class LeaseOperations:
    """What a Queue does for leases."""

    def lease_out(self: Queue, limit: int, limit_bytes: int, *, single: bool) -> list[Span]:  # type: ignore[misc]
        """Take messages out of what is ready."""
        self.touch()
        if self.kept.awaiting:
            return []
        if self._lifetimes.expiring:
            self._lifetimes.expire()
        return self.backing.lease_out(limit, limit_bytes, single=single)

    def settle_leased(self: Queue, spans: Sequence[Span]) -> None:  # type: ignore[misc]
        """Lent messages are done with."""
        self.touch()
        self.counters.acknowledged += self.backing.settle(spans)

    def return_leased(self: Queue, spans: Sequence[Span]) -> None:  # type: ignore[misc]
        """Lent messages are ready again."""
        self.backing.return_leased(spans)
        if self.settings.limited and not self.settings.rejects_publishes:
            self._drop_surplus()
        self._host.wake(self)

    def leased_is_delivered(self: Queue, last: int) -> None:  # type: ignore[misc]
        """Lent messages are about to return: whoever gets them, perhaps from another master, must know."""
        if last > self.delivered_up_to:
            self.delivered_up_to = last
            self.backing.delivered(last)
        self.kept.delivered(GIVEN_BACK, last)
        if self.mirrored is not None:
            self.mirrored.flush_operations()

    def when_safe(self: Queue, told: Callable[[], None]) -> None:  # type: ignore[misc]
        """Call this when everything that was done to the queue so far is as safe as can be."""
        self._confirm_later(_Told(told), 0, 0, True, NO_ORIGIN)
        if self.mirrored is not None:
            self.mirrored.mark_dirty()  # it may be so already, and then nothing else would tell
