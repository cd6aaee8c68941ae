"""Lease operations of a queue: messages are leased by sequence, and later returned or settled.

A message must be as safe as a confirmed publish before a lease takes it. An unsafe message may vanish with
this master and be published to the next one under another sequence: its reader would have it twice.

The functions take the queue, because a lease has no state in the queue beside that of its backing queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.sequences.spans import Span

if TYPE_CHECKING:
    from mirrormq.queues.queue import Queue

NO_ORIGIN = PublishOrigin("", 0)


class _OnSafe:
    """Publisher without messages that waits until all earlier operations of the queue are safe."""

    def __init__(self, on_safe: Callable[[], None]) -> None:
        self._on_safe = on_safe

    def confirmed(self, first: int, last: int) -> None:
        """Run the callback: all earlier operations are safe."""
        self._on_safe()

    def refused(self, number: int) -> None:
        """Ignore the refusal: there are no messages to refuse."""


def lease_out(queue: Queue, limit: int, limit_bytes: int, *, single: bool) -> list[Span]:
    """Lease ready messages; none while claims of other nodes are awaited."""
    queue.touch()
    if queue.kept.awaiting:
        return []
    queue.expire()
    return queue.backing.lease_out(limit, limit_bytes, single=single)


def settle_leased(queue: Queue, spans: Sequence[Span]) -> None:
    """Remove leased messages for good."""
    queue.touch()
    queue.counters.acknowledged += queue.backing.settle(spans)


def return_leased(queue: Queue, spans: Sequence[Span]) -> None:
    """Make leased messages ready again."""
    queue.backing.return_leased(spans)
    queue.became_ready()


def leased_is_delivered(queue: Queue, last: int) -> None:
    """Replicate that readers have had messages up to `last`, before these return. The next consumer, also
    of another master, must see them as redelivered."""
    queue.delivered(last)
    if queue.mirrored is not None:
        queue.mirrored.flush_operations()


def when_safe(queue: Queue, on_safe: Callable[[], None]) -> None:
    """Call `on_safe` when all operations of the queue so far are as safe as a confirmed publish."""
    queue.intake.confirm_later(_OnSafe(on_safe), 0, 0, True, NO_ORIGIN)
    if queue.mirrored is not None:
        queue.mirrored.mark_dirty()  # the ring may be complete already and would not report again
