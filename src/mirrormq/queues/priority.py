"""Priority queue: a BackingQueue of one paged queue per priority; the highest non-empty one is served first.

All priorities share one store and one numbering, so a message has one sequence per queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirrormq.queues.backing import ANY_BYTES, ANY_SEQUENCE
from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.paged_queue import PagedQueue
from mirrormq.sequences.spans import Span, joined


class PriorityQueue:
    """Priorities 0 … `highest`; a message above that counts as the highest."""

    def __init__(self, highest: int, make: Callable[[], PagedQueue], next_sequence: int = 1) -> None:
        self._highest = highest
        self._make = make
        self._levels: dict[int, PagedQueue] = {}
        self._descending: list[PagedQueue] = []
        self.next_sequence = next_sequence
        self._lazy = False
        self._unread: set[int] = set()
        """Stored messages that recovery found damaged: their priorities are not known."""

    def _level(self, priority: int) -> PagedQueue:
        priority = min(priority, self._highest)
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = self._make()
            level.lazy = self._lazy
            self._descending = [self._levels[key] for key in sorted(self._levels, reverse=True)]
        return level

    @property
    def lazy(self) -> bool:
        """Keep as little as possible in memory."""
        return self._lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self._lazy = lazy
        for level in self._descending:
            level.lazy = lazy

    @property
    def ready_count(self) -> int:
        """Number of ready messages."""
        return sum([level.ready_count for level in self._descending])

    @property
    def ready_bytes(self) -> int:
        """Body bytes of ready messages."""
        return sum([level.ready_bytes for level in self._descending])

    @property
    def unacked_count(self) -> int:
        """Number of unacknowledged messages."""
        return sum([level.unacked_count for level in self._descending])

    @property
    def unacked_bytes(self) -> int:
        """Body bytes of unacknowledged messages."""
        return sum([level.unacked_bytes for level in self._descending])

    def occupancy(self) -> MemoryUse:
        """Return the sum over all priorities, with the figures of their common store counted once."""
        levels = [level.occupancy() for level in self._descending]
        if not levels:
            return MemoryUse()
        one = levels[0]
        return sum(levels, MemoryUse())._replace(
            persistent_count=one.persistent_count, persistent_bytes=one.persistent_bytes
        )

    def _by_level(self, messages: Iterable[Message]) -> Iterable[tuple[PagedQueue, list[Message]]]:
        groups: dict[int, list[Message]] = {}
        for message in messages:
            groups.setdefault(min(message.envelope.priority, self._highest), []).append(message)
        return [(self._level(priority), group) for priority, group in groups.items()]

    def recover(self, messages: Iterable[Message]) -> None:
        """Start with a backlog that is already in the store."""
        for level, group in self._by_level(messages):
            level.recover([message.sequence for message in group], sum(m.body_size for m in group))

    def leave_out(self, sequences: Iterable[int]) -> None:
        """Record damaged messages of the backlog."""
        self._unread.update(sequences)

    @property
    def damaged_count(self) -> int:
        """Number of stored messages that are damaged."""
        return sum([level.damaged_count for level in self._descending]) + len(self._unread)

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make damaged messages ready that have been rewritten; returns their number."""
        back = sorted(self._unread.intersection(sequences))
        if back:
            self._unread.difference_update(back)
            for level, group in self._by_level(self._level(0).load(back)):
                level.leave_out([message.sequence for message in group])
        return sum([level.readmit(sequences) for level in self._descending])

    def publish(self, messages: Sequence[Message]) -> None:
        """Number the messages and append each to its priority."""
        for message in messages:
            message.sequence = self.next_sequence
            self.next_sequence += 1
        for level, group in self._by_level(messages):
            level.accept(group)

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Take messages from the highest priority with ready ones."""
        for level in self._descending:
            if level.ready_count:
                messages = level.fetch(limit, limit_bytes, up_to)
                if messages:
                    return messages
        return []

    def peek(self) -> Message | None:
        """Return the next message, and leave it ready."""
        for level in self._descending:
            message = level.peek()
            if message is not None:
                return message
        return None

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Take expired messages from the head; continue with a lower priority when the higher ones are
        empty."""
        expired: list[Message] = []
        for level in self._descending:
            expired += level.take_expired(now_ms, limit - len(expired))
            if level.ready_count:
                break
        return expired

    def next_expiry(self) -> int:
        """Return the time when the head expires, or NEVER."""
        message = self.peek()
        return NEVER if message is None else message.expires_at

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove fetched messages for good."""
        for level, group in self._by_level(messages):
            level.acknowledge(group)

    def requeue(self, messages: Sequence[Message]) -> None:
        """Return fetched messages to their positions."""
        for level, group in self._by_level(messages):
            level.requeue(group)

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Allow the contents of fetched messages to leave memory."""
        for level, group in self._by_level(messages):
            level.release_contents(group)

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """Return fetched messages with their contents, without those that are damaged on disk."""
        for level, group in self._by_level(messages):
            level.load_contents(group)
        return [message for message in messages if message.frames]

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Span]:
        """Lease messages of the highest priority with ready ones."""
        for level in self._descending:
            if level.ready_count:
                return level.lease_out(limit, limit_bytes, single=single)
        return []

    def lease_exact(self, spans: Sequence[Span]) -> list[Span]:
        """Lease those of these sequences that are ready."""
        return joined([one for level in self._descending for one in level.lease_exact(spans)])

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch those of these sequences that are ready."""
        return [message for level in self._descending for message in level.reclaim(spans)]

    def settle(self, spans: Sequence[Span]) -> int:
        """Remove leased messages for good."""
        return sum([level.settle(spans) for level in self._descending])

    def return_leased(self, spans: Sequence[Span]) -> int:
        """Return leased messages to their positions."""
        return sum([level.return_leased(spans) for level in self._descending])

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Return ready messages that are in memory only."""
        found = [message for level in self._descending for message in level.peek_unstored(first, end, limit)]
        return sorted(found, key=lambda message: message.sequence)[:limit]

    def delivered(self, sequence: int) -> None:
        """Record that consumers have had messages up to `sequence`. For lower priorities that may be false:
        after a restart they are then marked as redelivered, which AMQP allows."""
        self._level(0).delivered(sequence)

    def purge(self) -> int:
        """Drop every ready message."""
        return sum([level.purge() for level in self._descending])

    def forget_producers(self, producers: list[str]) -> None:
        """Forget the publish numbers of these producers."""
        self._level(0).forget_producers(producers)

    def unstored(self) -> list[Message]:
        """Return the ready messages that are in memory only."""
        return [message for level in self._descending for message in level.unstored()]

    def forget_all(self) -> None:
        """Reset all counts and release all memory."""
        for level in self._descending:
            level.forget_all()

    def erase(self) -> None:
        """Delete everything: each priority forgets its messages, and one erases the common store."""
        self.forget_all()
        self._level(0).erase()
