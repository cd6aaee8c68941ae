"""The ordinary BackingQueue: pages (`queues.pages`) that can lend (`queues.leased_pages`) and be published
to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from mirrormq import limits
from mirrormq.queues.leased_pages import LeasablePages
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.publish_ids import highest_of


class PagedQueue(LeasablePages):
    """A BackingQueue over one QueueStore."""

    def recover(self, sequences: Sequence[int], total_bytes: int) -> None:
        """Start with a backlog that is already in the store."""
        self._page(sequences, total_bytes)
        self.ready_count += len(sequences)
        self.ready_bytes += total_bytes

    def publish(self, messages: Sequence[Message]) -> None:
        """Number the messages and append them."""
        sequence = self.next_sequence
        for message in messages:
            message.sequence = sequence
            sequence += 1
        self.next_sequence = sequence
        self.accept(messages)

    def accept(self, messages: Sequence[Message]) -> None:
        """Append messages that have their numbers."""
        if self._durable:
            persistent = [message for message in messages if message.envelope.persistent]
            if persistent:
                if messages[0].envelope.producer_ids is not None:
                    self._store.record_producer_id(highest_of(persistent), messages[-1].sequence + 1)
                self._store.append(persistent, durable=True)
                self.disk_writes += len(persistent)
            if len(persistent) < len(messages):
                self._store.reserve(messages[-1].sequence + 1)
        total_bytes = sum([message.body_size for message in messages])
        self.ready_count += len(messages)
        self.ready_bytes += total_bytes
        if self._paged_count or self._is_full(messages[-1].position > 0):
            self._page_out(messages, total_bytes)
        else:
            self._head.extend(messages)
            self._hot(total_bytes, len(messages))

    def peek(self) -> Message | None:
        """The next message, left where it is."""
        while not self._head and self._paged_count:
            self._page_in()
        return self._head[0] if self._head else None

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Take what has expired at the head."""
        expired: list[Message] = []
        while len(expired) < limit and NEVER < self.next_expiry() <= now_ms:
            expired += self.fetch(1)
        return expired

    def next_expiry(self) -> int:
        """When the head will expire."""
        message = self.peek()
        return NEVER if message is None else message.expires_at

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Fetched messages are done with."""
        total_bytes = sum([message.body_size for message in messages])
        count = len(messages)
        self.unacked_count -= count
        self.unacked_bytes -= total_bytes
        if self._released_count:
            total_bytes -= self._dress(messages)
        self._budget.used_bytes -= total_bytes + count * limits.MESSAGE_OVERHEAD_BYTES
        stored = [message for message in messages if message.position]
        if stored:
            self._store.acknowledge(stored)

    def requeue(self, messages: Sequence[Message]) -> None:
        """Fetched messages return to their places, marked redelivered."""
        ordered = sorted(messages, key=_sequence)
        for message in ordered:
            message.redelivered = True
        total_bytes = sum([message.body_size for message in ordered])
        head, newest = self._head, ordered[-1].sequence if ordered else 0
        older = []
        while head and head[0].sequence < newest:
            older.append(head.popleft())
        head.extendleft(sorted(older + ordered, key=_sequence, reverse=True) if older else reversed(ordered))
        self._head_bytes += total_bytes
        self.ready_count += len(ordered)
        self.ready_bytes += total_bytes
        self.unacked_count -= len(ordered)
        self.unacked_bytes -= total_bytes
        if self._paged_count and newest > self._paged[0][0]:
            self._sort_head()
        elif self._released_count:
            self._restore([message for message in ordered if not message.frames])

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Consumers have these now: contents that the journal has as well leave memory."""
        gone = [message for message in messages if message.position and message.frames]
        for message in gone:
            message.frames = b""
        gone_bytes = sum([message.body_size for message in gone])
        self._released_count += len(gone)
        self._released_bytes += gone_bytes
        self._budget.used_bytes -= gone_bytes

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """Fetched messages with their contents; without those that the disk has damaged."""
        released = [message for message in messages if not message.frames] if self._released_count else []
        if not released:
            return list(messages)
        self._read_contents(released)
        return [message for message in messages if message.frames]

    def delivered(self, sequence: int) -> None:
        """Messages up to `sequence` have been with a consumer: so they say after a restart."""
        if self._durable:
            self._store.delivered(sequence)

    def forget_producers(self, producers: list[str]) -> None:
        """Of these nothing need be remembered any more."""
        self._store.forget_producers(producers)

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Ready messages that are in memory only."""
        found: list[Message] = []
        for message in takewhile(lambda message: message.sequence < end, self._head):
            if message.sequence >= first and not message.position:
                found.append(message)
                if len(found) >= limit:
                    break
        return found

    def purge(self) -> int:
        """Drop every ready message."""
        count = self.ready_count
        stored = [message for message in self._head if message.position]
        if stored:
            self._store.acknowledge(stored)
        for chunk in self._paged:
            self._store.forget(chunk)
        self._store.forget(sorted(self._damaged))
        self._damaged.clear()
        self._budget.used_bytes -= self._head_bytes + len(self._head) * limits.MESSAGE_OVERHEAD_BYTES
        self._head.clear()
        self._paged.clear()
        self._head_bytes = self._paged_count = self._paged_bytes = 0
        self.ready_count = self.ready_bytes = 0
        return count

    def erase(self) -> None:
        """Everything goes."""
        self.forget_all()
        self._store.erase()

    def unstored(self) -> list[Message]:
        """The ready messages that are in memory only: what is paged is in the store."""
        return [message for message in self._head if not message.position]


def _sequence(message: Message) -> int:
    return message.sequence
