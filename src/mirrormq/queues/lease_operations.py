"""Lease operations of a queue: messages are leased by sequence, and later returned or settled.

A message must be as safe as a confirmed publish before a lease takes it. An unsafe message may vanish with
this master and be published to the next one under another sequence: its reader would have it twice.
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
    """Publisher without messages that waits until all earlier operations of the queue are safe."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def confirmed(self, first: int, last: int) -> None:
        """Run the callback: all earlier operations are safe."""
        self._told()

    def refused(self, number: int) -> None:
        """Ignore the refusal: there are no messages to refuse."""


class LeaseOperations:
    """Lease operations of Queue (mixin)."""

    def lease_out(self: Queue, limit: int, limit_bytes: int, *, single: bool) -> list[Span]:  # type: ignore[misc]
        """Lease ready messages; none while claims of other nodes are awaited."""
        self.touch()
        if self.kept.awaiting:
            return []
        if self._lifetimes.expiring:
            self._lifetimes.expire()
        return self.backing.lease_out(limit, limit_bytes, single=single)

    def settle_leased(self: Queue, spans: Sequence[Span]) -> None:  # type: ignore[misc]
        """Remove leased messages for good."""
        self.touch()
        self.counters.acknowledged += self.backing.settle(spans)

    def return_leased(self: Queue, spans: Sequence[Span]) -> None:  # type: ignore[misc]
        """Make leased messages ready again."""
        self.backing.return_leased(spans)
        if self.settings.limited and not self.settings.rejects_publishes:
            self._drop_surplus()
        self._host.wake(self)

    def leased_is_delivered(self: Queue, last: int) -> None:  # type: ignore[misc]
        """Replicate that readers have had messages up to `last`, before these return. The next consumer, also
        of another master, must see them as redelivered."""
        if last > self.delivered_up_to:
            self.delivered_up_to = last
            self.backing.delivered(last)
        self.kept.delivered(GIVEN_BACK, last)
        if self.mirrored is not None:
            self.mirrored.flush_operations()

    def when_safe(self: Queue, told: Callable[[], None]) -> None:  # type: ignore[misc]
        """Call `told` when all operations of the queue so far are as safe as a confirmed publish."""
        self._confirm_later(_Told(told), 0, 0, True, NO_ORIGIN)
        if self.mirrored is not None:
            self.mirrored.mark_dirty()  # the ring may be complete already and would not report again
