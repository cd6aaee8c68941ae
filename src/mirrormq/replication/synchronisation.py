"""Synchronisation of one mirror: it receives the messages older than its membership, while the queue works.

# The promise

A mirror that joins takes part in the ring at once, so it has everything from its first operation batch on.
It lacks older messages: those that were in the queue then and that it does not have from an earlier
incarnation. `missing` is exactly that set. It shrinks as messages are consumed and as they are sent. When it
is empty the mirror holds what the master holds, and may join the in-sync set. So a mirror of a queue that
drains becomes synchronised without a transfer (`ha-sync-mode: manual`), and with `automatic` the master sends
the rest.

Clients do not wait for this. Batches are bounded in messages and bytes, a few are in flight at a time, and
publishers and consumers are served between them. RabbitMQ blocks the whole queue instead.

# A mirror from an earlier incarnation

The mirror reports the sequences that it still has. It drops those that the master does not have, and the
master sends only the difference. Sequences suffice for that, because none is used twice: each epoch has its
own (`first_sequence`), so a message that a deposed master numbered without its successor's knowledge cannot
be mistaken for another one.

# Damage

A message that the master's disk has damaged cannot be sent. The mirror is not synchronised before the message
is repaired (`replication.record_repair`), has left the queue, or is given up: no member has a good copy.
Otherwise the mirror could be promoted and drop the good copy of another member.

# Failure at any step

The session belongs to one ring view. If the mirror fails, the session is discarded; if the master fails, the
mirror sends its request to the new one. A mirror recognises a repeated batch by its sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from mirrormq.queues.message import Message
from mirrormq.replication.replication_limits import DEFAULT_LIMITS
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.sequences.spans import Span, spans_of_unordered

EPOCH_BITS = 44
"""Bits for the sequences of one epoch: 17 million million sequences, a year at half a million messages a
second, and half a million epochs."""


def first_sequence(epoch: int) -> int:
    """Return the first sequence of an epoch; the first epoch starts at 1."""
    return (epoch - 1 << EPOCH_BITS) + 1


class SyncPace(NamedTuple):
    """Limits of synchronisation batches."""

    batch_messages: int = 4096
    """`ha-sync-batch-size`; RabbitMQ's default."""
    batch_bytes: int = 1024 * 1024
    """Byte limit of a batch: keeps its time on a link well below a heartbeat."""
    bytes_per_s: int = 0
    """`mirroring_sync_max_throughput`; 0: no limit."""


class Contents(Protocol):
    """Source of the messages: the master's backing queue."""

    def sizes(self, sequences: Sequence[int]) -> list[int]:
        """Return the body sizes of the messages."""

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Return the messages, without damaged ones."""

    def damaged(self, sequences: Sequence[int]) -> list[int]:
        """Return the messages that could not be loaded because the disk has damaged them."""


class Synchronisation:
    """Master's side of the synchronisation of one mirror."""

    def __init__(
        self,
        attempt: int,
        live: SequenceSet,
        have: SequenceSet,
        coming: SequenceSet,
        pace: SyncPace,
        *,
        sending: bool,
        in_flight_max: int = DEFAULT_LIMITS.batches_in_flight,
    ) -> None:
        self.attempt = attempt
        self.pace = pace
        self._in_flight_max = in_flight_max
        self.sending = sending
        """Flag: messages are sent; otherwise the mirror waits until the queue has drained far enough."""
        self.surplus = have.copy()
        """Sequences that the mirror has and the master lacks: the mirror must drop them."""
        # `live` becomes `missing` and shrinks, so the surplus is computed before.
        self.surplus.subtract(live)
        self.missing = live
        """Sequences that the mirror lacks and that have not been sent."""
        self.missing.subtract(have)
        self.missing.subtract(coming)
        self.total = self.missing.count
        self.unreadable = SequenceSet()
        """Sequences that the mirror lacks and the master cannot read."""
        self._in_flight: deque[int] = deque()
        """Message counts of batches that the mirror has not acknowledged. The first may be 0: the request to
        drop the surplus."""
        self.not_before_ms = 0
        """Earliest time of the next batch, because of `bytes_per_s`."""

    @property
    def done(self) -> bool:
        """Return whether the mirror holds everything."""
        return not self.missing and not self._in_flight and not self.unreadable

    @property
    def progress(self) -> int:
        """Number of messages that the mirror no longer lacks, of `total`."""
        return max(0, self.total - self.missing.count - sum(self._in_flight))

    def removed(self, ranges: Iterable[Span]) -> None:
        """Record that messages have left the queue."""
        for numbers in (self.missing, self.unreadable):
            if numbers:
                for first, size in ranges:
                    numbers.remove(first, size)

    def repaired(self, sequences: Iterable[int]) -> None:
        """Record that the master can read these messages again."""
        for number in sequences:
            if number in self.unreadable:
                self.unreadable.remove(number, 1)
                self.missing.add(number)

    def give_up(self, sequences: Iterable[int]) -> list[int]:
        """Give up messages of which no member has a good copy; return those that the mirror lacks."""
        lacking = [number for number in sequences if number in self.unreadable]
        for number in lacking:
            self.unreadable.remove(number, 1)
        return lacking

    def appeared(self, sequence: int) -> None:
        """Add an old message whose content was unavailable before."""
        self.missing.add(sequence)
        self.total += 1

    def introduced(self) -> None:
        """Record that the first batch, with the sequences to drop, was sent; the mirror acknowledges it."""
        self._in_flight.append(0)

    def next_batch(self, contents: Contents, now_ms: int) -> list[Message] | None:
        """Return the next messages to send; None if nothing is to be sent now."""
        if not self.sending or not self.missing or len(self._in_flight) >= self._in_flight_max:
            return None
        if now_ms < self.not_before_ms:
            return None
        numbers, size_bytes = self._choose(contents)
        batch = contents.load(numbers)
        # Before unreadable messages are noted: `removed` would delete them from that set, too.
        self.removed(spans_of_unordered(numbers))
        if len(batch) < len(numbers):
            for number in contents.damaged(numbers):
                self.unreadable.add(number)
        self._in_flight.append(len(batch))
        if self.pace.bytes_per_s:
            self.not_before_ms = now_ms + size_bytes * 1000 // self.pace.bytes_per_s
        return batch

    def _choose(self, contents: Contents) -> tuple[list[int], int]:
        """Return the lowest missing sequences that fit into a batch, and their bytes."""
        numbers = self.missing.first_numbers(self.pace.batch_messages)
        total = 0
        for count, size in enumerate(contents.sizes(numbers)):
            if count and total + size > self.pace.batch_bytes:
                return numbers[:count], total
            total += size
        return numbers, total

    def acknowledged(self) -> None:
        """Record that the mirror has the oldest batch in flight."""
        if self._in_flight:
            self._in_flight.popleft()
