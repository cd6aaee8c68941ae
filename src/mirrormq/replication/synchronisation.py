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

It says what it still has. What the master does not have is dropped, and only the difference is sent.
Numbers suffice for that, because no number is ever given out twice: each epoch has its own
(`first_sequence`), so what a deposed master numbered without its successor's knowledge cannot be taken
for something else.

# Damage

A message that the master's disk has damaged cannot be sent. The mirror is not synchronised before the message
is repaired (`broker.repairs`), has left the queue, or is given up because no member has a good copy: else it
could be promoted and let the good copy of another member go.

# Death at any step

The session lives with its ring view. If the mirror dies it is forgotten; if the master dies the new
one asks the mirror again. A batch that comes twice is recognised by its numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from mirrormq.queues.message import Message
from mirrormq.replication.sequence_set import Range, SequenceSet, ranges_of

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
    bytes_per_s: int = 0
    """`mirroring_sync_max_throughput`; 0: no limit."""


class Contents(Protocol):
    """Where the messages come from: the master's keeper."""

    def sizes(self, sequences: Sequence[int]) -> list[int]:
        """The messages' body sizes."""

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """The messages, less those that are damaged."""

    def damaged(self, sequences: Sequence[int]) -> list[int]:
        """Messages that could not be loaded because the disk has damaged them."""


class Synchronisation:
    """The master's side, for one mirror."""

    def __init__(
        self,
        attempt: int,
        live: SequenceSet,
        have: SequenceSet,
        coming: SequenceSet,
        pace: SyncPace,
        *,
        sending: bool,
    ) -> None:
        self.attempt = attempt
        self.pace = pace
        self.sending = sending
        """Whether messages are sent; else the mirror waits until the queue has drained that far."""
        self.surplus = have.copy()
        """What the mirror has and the master has not: to be dropped."""
        self.surplus.subtract(live)
        self.missing = live
        """What the mirror lacks and has not been sent."""
        self.missing.subtract(have)
        self.missing.subtract(coming)
        self.total = self.missing.count
        self.unreadable = SequenceSet()
        """What the mirror lacks and the master cannot read."""
        self._in_flight: deque[int] = deque()
        """Batches that the mirror has not taken yet: how many messages. The first may be none: it is the
        word to drop the surplus."""
        self.not_before_ms = 0
        """When the next batch may be sent, for the sake of `bytes_per_s`."""

    @property
    def done(self) -> bool:
        """Does the mirror hold everything?"""
        return not self.missing and not self._in_flight and not self.unreadable

    @property
    def progress(self) -> int:
        """Messages that the mirror no longer lacks, of `total`."""
        return max(0, self.total - self.missing.count - sum(self._in_flight))

    def removed(self, ranges: Iterable[Range]) -> None:
        """Messages have left the queue."""
        for numbers in (self.missing, self.unreadable):
            if numbers:
                for first, size in ranges:
                    numbers.remove(first, size)

    def repaired(self, sequences: Iterable[int]) -> None:
        """The master can read these again."""
        for number in sequences:
            if number in self.unreadable:
                self.unreadable.remove(number, 1)
                self.missing.add(number)

    def give_up(self, sequences: Iterable[int]) -> list[int]:
        """Let the mirror do without these, of which nobody has a good copy; gives those that it lacks."""
        lacking = [number for number in sequences if number in self.unreadable]
        for number in lacking:
            self.unreadable.remove(number, 1)
        return lacking

    def appeared(self, sequence: int) -> None:
        """An old message has been found that nobody could show before."""
        self.missing.add(sequence)
        self.total += 1

    def introduced(self) -> None:
        """The mirror was told what it should know first, and will say that it has heard."""
        self._in_flight.append(0)

    def next_batch(self, contents: Contents, now_ms: int) -> list[Message] | None:
        """The next messages to send; None if nothing is to be sent now."""
        if not self.sending or not self.missing or len(self._in_flight) >= BATCHES_IN_FLIGHT:
            return None
        if now_ms < self.not_before_ms:
            return None
        numbers, size_bytes = self._choose(contents)
        batch = contents.load(numbers)
        self.removed(ranges_of(numbers))
        if len(batch) < len(numbers):
            for number in contents.damaged(numbers):
                self.unreadable.add(number)
        self._in_flight.append(len(batch))
        if self.pace.bytes_per_s:
            self.not_before_ms = now_ms + size_bytes * 1000 // self.pace.bytes_per_s
        return batch

    def _choose(self, contents: Contents) -> tuple[list[int], int]:
        """The lowest missing numbers, as many as a batch may hold, and their bytes."""
        numbers = self.missing.first_numbers(self.pace.batch_messages)
        total = 0
        for count, size in enumerate(contents.sizes(numbers)):
            if count and total + size > self.pace.batch_bytes:
                return numbers[:count], total
            total += size
        return numbers, total

    def acknowledged(self) -> None:
        """The mirror has the oldest batch that was on its way."""
        if self._in_flight:
            self._in_flight.popleft()
