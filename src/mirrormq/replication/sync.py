"""Synchronisation: a mirror gets what was in the queue before it came, while the queue goes on.

# The promise

A mirror that joins takes part in the ring at once, so it has everything from its first lap on. What
it lacks is older: the messages that were in the queue then and that it does not have from an earlier
life. `missing` is exactly that set. It shrinks as messages are consumed and as they are sent; when it
is empty the mirror holds what the master holds, and may join the in-sync set. So a mirror of a queue
that drains becomes synchronised by itself (`ha-sync-mode: manual`), and with `automatic` it is sent
the rest.

Nothing waits for this. Batches are bounded in messages and bytes, a few are on their way at a time,
and publishers and consumers have the loop in between. RabbitMQ stops the queue for everybody instead.

# A mirror from an earlier life

It says what it still has, as sequence ranges. What the master does not have is dropped, and only the
difference is sent. Numbers suffice for that, because no number is ever given out twice: each epoch
has its own (`first_sequence`), so what a deposed master numbered without its successor's knowledge
cannot be taken for something else.

# Death at any step

The session lives with its ring view. If the mirror dies it is forgotten; if the master dies the new
one asks the mirror again. A batch that comes twice is recognised by its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mirrormq.queues.message import Message
from mirrormq.replication.ranges import Range, RangeSet

BATCHES_IN_FLIGHT = 2
"""One on its way while the mirror works on the other."""


EPOCH_BITS = 44
"""Numbers in an epoch: 17 million million, a year of half a million messages a second, and half a
million epochs of them."""


def first_sequence(epoch: int) -> int:
    """The first number of an epoch; the first epoch starts at 1."""
    return (epoch - 1 << EPOCH_BITS) + 1


class SyncPace(NamedTuple):
    """How much at once."""

    batch_messages: int = 4096
    """`ha-sync-batch-size`; RabbitMQ's default."""
    batch_bytes: int = 1024 * 1024
    """Whatever the messages' number: keeps a batch's time on a link well below a heartbeat."""


class Synchronisation:
    """The master's side, for one mirror."""

    def __init__(
        self,
        mirror: str,
        attempt: int,
        live_below: Iterable[Range],
        have: Iterable[Range],
        pace: SyncPace,
        *,
        sending: bool,
    ) -> None:
        self.attempt = attempt
        self.mirror = mirror
        self.sending = sending
        """Is it sent what it lacks, or does it wait for that to be consumed?"""
        self.pace = pace
        live = RangeSet(live_below)
        had = RangeSet(have)
        self.surplus = RangeSet(had.ranges())
        """What the mirror has and the master has not: to be dropped."""
        for first, size in live.ranges():
            self.surplus.remove(first, size)
        for first, size in had.ranges():
            live.remove(first, size)
        self.missing = live
        """What the mirror lacks and has not been sent."""
        self.total = live.count
        self._in_flight: list[RangeSet] = [RangeSet()] if self.surplus else []
        """Batches that the mirror has not taken yet; the first may be the word to drop the surplus."""

    @property
    def done(self) -> bool:
        """Does the mirror hold everything?"""
        return not self.missing and not self._in_flight

    @property
    def progress(self) -> int:
        """Messages that the mirror no longer lacks, of `total`."""
        return self.total - self.missing.count - sum(batch.count for batch in self._in_flight)

    def removed(self, ranges: Iterable[Range]) -> None:
        """Messages have left the queue."""
        for first, size in ranges:
            self.missing.remove(first, size)

    def next_batch(self, load: Callable[[Sequence[int]], list[Message]]) -> list[Message] | None:
        """The next messages to send; None if nothing is to be sent now."""
        if not self.sending or not self.missing or len(self._in_flight) >= BATCHES_IN_FLIGHT:
            return None
        messages = load(self.missing.first_numbers(self.pace.batch_messages))
        batch: list[Message] = []
        room = self.pace.batch_bytes
        for message in messages:
            if batch and room < message.body_size:
                break
            room -= message.body_size
            batch.append(message)
        numbers = RangeSet((message.sequence, 1) for message in batch)
        for first, size in numbers.ranges():
            self.missing.remove(first, size)
        self._in_flight.append(numbers)
        return batch

    def acknowledged(self) -> None:
        """The mirror has the oldest batch that was on its way."""
        if self._in_flight:
            self._in_flight.pop(0)
