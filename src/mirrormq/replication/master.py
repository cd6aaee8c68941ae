"""The master's keeper of messages: an ordinary one, wrapped, that tells the ring what it does.

The queue in front of it notices nothing (`queues.backing`). The wrapper knows besides which sequences
the queue holds, because a mirror that joins must be told, and where to find each message again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirrormq.queues.backing import ANY_BYTES, BackingQueue, QueueStore
from mirrormq.queues.message import Message
from mirrormq.replication.operations import Append, Delivered, Operation, Remove
from mirrormq.replication.ranges import Range, RangeSet, ranges_of

PURGE_BATCH = 4096
"""Messages that a purge takes at once."""


class MirroredMaster:
    """A BackingQueue whose operations go round the ring."""

    def __init__(
        self,
        inner: BackingQueue,
        store: QueueStore,
        held: Iterable[Range],
        tell: Callable[[Operation], int],
        removed: Callable[[list[Range]], None],
    ) -> None:
        self._inner = inner
        self._store = store
        self._tell = tell
        self._removed = removed
        self.held = RangeSet(held)
        """Every sequence in the queue, ready or not."""
        self._unstored: dict[int, Message] = {}
        self.last_number = 0
        """The operation that the last publish became."""

    # -- what it tells --------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> None:
        """Append messages; those that share an envelope travel together."""
        frames = [message.frames for message in messages]
        self._inner.publish(messages)
        self.held.add(messages[0].sequence, len(messages))
        self._unstored.update((message.sequence, message) for message in messages if not message.position)
        start = 0
        for end in range(1, len(messages) + 1):
            if end == len(messages) or messages[end].envelope is not messages[start].envelope:
                first, envelope = messages[start], messages[start].envelope
                together = Append(
                    first.sequence, envelope.publish, envelope.properties, frames[start:end], first.expires_at
                )
                self.last_number = self._tell(together)
                start = end

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Messages leave the queue."""
        self._inner.acknowledge(messages)
        ranges = ranges_of(sorted(message.sequence for message in messages))
        for first, size in ranges:
            self.held.remove(first, size)
        for message in messages:
            self._unstored.pop(message.sequence, None)
        self._tell(Remove(ranges))
        self._removed(ranges)

    def delivered(self, sequence: int) -> None:
        """Messages have been with a consumer."""
        self._inner.delivered(sequence)
        self._tell(Delivered(sequence))

    def purge(self) -> int:
        """Drop every ready message."""
        dropped = 0
        while messages := self._inner.fetch(PURGE_BATCH):
            dropped += len(messages)
            self.acknowledge(messages)
        return dropped

    # -- what it passes on ----------------------------------------------------------------------

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES) -> list[Message]:
        """Take from the head."""
        return self._inner.fetch(limit, limit_bytes)

    def sent(self, messages: Sequence[Message]) -> None:
        """Contents that the journal has may leave memory."""
        self._inner.sent(messages)

    def recall(self, messages: Sequence[Message]) -> list[Message]:
        """The same messages with their contents."""
        return self._inner.recall(messages)

    def peek(self) -> Message | None:
        """The next message."""
        return self._inner.peek()

    def take_expired(self, now_ms: int) -> list[Message]:
        """Take what has expired."""
        return self._inner.take_expired(now_ms)

    def next_expiry(self) -> int:
        """When the head will expire."""
        return self._inner.next_expiry()

    def requeue(self, messages: Sequence[Message]) -> None:
        """Back to their places: to a mirror they never left."""
        self._inner.requeue(messages)

    def erase(self) -> None:
        """The queue is deleted; the metadata tells the mirrors."""
        self._inner.erase()

    @property
    def next_sequence(self) -> int:
        """The number of the next message."""
        return self._inner.next_sequence

    @property
    def lazy(self) -> bool:
        """Keep as little as possible in memory."""
        return self._inner.lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self._inner.lazy = lazy

    @property
    def ready_count(self) -> int:
        """Messages ready for delivery."""
        return self._inner.ready_count

    @property
    def ready_bytes(self) -> int:
        """Their body bytes."""
        return self._inner.ready_bytes

    @property
    def unacked_count(self) -> int:
        """Messages out with consumers."""
        return self._inner.unacked_count

    @property
    def unacked_bytes(self) -> int:
        """Their body bytes."""
        return self._inner.unacked_bytes

    # -- for synchronisation --------------------------------------------------------------------

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Messages by number, wherever they are."""
        stored = [number for number in sequences if number not in self._unstored]
        found = {message.sequence: message for message in self._store.load(stored)}
        return [self._unstored.get(number) or found[number] for number in sequences]
