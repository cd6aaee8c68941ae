"""Ordinary BackingQueue: pages (`queues.pages`) with leases (`queues.leased_pages`) and publishes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from mirrormq import limits
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.leased_pages import LeasablePages
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.publish_ids import highest_of


class PagedQueue(LeasablePages):
    """BackingQueue over one QueueStore."""

    def recover(self, sequences: Sequence[int], total_bytes: int) -> None:
        """Start with a backlog that is already in the store."""
        self._page(sequences, total_bytes)
        self.ready_count += len(sequences)
        self.ready_bytes += total_bytes

    def publish(self, messages: Sequence[Message]) -> None:
        """Assign sequences to the messages and append them."""
        sequence = self.next_sequence
        for message in messages:
            message.sequence = sequence
            sequence += 1
        self.next_sequence = sequence
        message = messages[0]
        envelope = message.envelope
        if len(messages) > 1 or not (self._durable and envelope.persistent and envelope.plain):
            self.accept(messages)
            return
        self._store.append_one(message)
        self.disk_writes += 1
        body_size = message.body_size
        self.ready_count += 1
        self.ready_bytes += body_size
        if self._paged_count or self._is_full(stored=True):
            self._page_out(messages, body_size)
        else:
            self._head.append(message)
            self._hot(body_size, 1)

    def accept(self, messages: Sequence[Message]) -> None:
        """Append messages that have their sequences."""
        stored = 0
        if self._durable:
            persistent = [message for message in messages if message.envelope.persistent]
            if persistent:
                if messages[0].envelope.producer_ids is not None:
                    self._store.record_producer_id(highest_of(persistent), messages[-1].sequence + 1)
                self._store.append(persistent, durable=True)
                self.disk_writes += len(persistent)
            stored = len(persistent)
            if stored < len(messages):
                self._store.reserve(messages[-1].sequence + 1)
        if stored < len(messages):
            now_ms = self._store.now_ms
            for message in messages:
                message.ingested_ms = message.ingested_ms or now_ms
        total_bytes = sum([message.body_size for message in messages])
        self.ready_count += len(messages)
        self.ready_bytes += total_bytes
        # Behind paged messages new ones are paged too: messages in memory are delivered first and would
        # overtake.
        if self._paged_count or self._is_full(messages[-1].position > 0):
            self._page_out(messages, total_bytes)
        else:
            self._head.extend(messages)
            self._hot(total_bytes, len(messages))

    def peek(self) -> Message | None:
        """Return the next message without removing it."""
        while not self._head and self._paged_count:
            self._page_in()
        return self._head[0] if self._head else None

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Remove and return expired messages at the head."""
        expired: list[Message] = []
        while len(expired) < limit and NEVER < self.next_expiry() <= now_ms:
            expired += self.fetch(1)
        return expired

    def next_expiry(self) -> int:
        """Return the expiry time of the head."""
        message = self.peek()
        return NEVER if message is None else message.expires_at

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove fetched messages that were acknowledged."""
        if len(messages) == 1 and not self._released_count:
            message = messages[0]
            self.unacked_count -= 1
            self.unacked_bytes -= message.body_size
            self._budget.used_bytes -= message.body_size + limits.MESSAGE_OVERHEAD_BYTES
            if message.position:
                self._store.acknowledge_one(message.sequence)
            return
        total_bytes = sum([message.body_size for message in messages])
        count = len(messages)
        self.unacked_count -= count
        self.unacked_bytes -= total_bytes
        if self._released_count:
            total_bytes -= self._uncount_released(messages)
        self._budget.used_bytes -= total_bytes + count * limits.MESSAGE_OVERHEAD_BYTES
        stored = [message for message in messages if message.position]
        if stored:
            self._store.acknowledge(stored)

    def requeue(self, messages: Sequence[Message]) -> None:
        """Return fetched messages to their positions, marked redelivered."""
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
        # A requeued message may be younger than paged ones: the head must not overtake them.
        if self._paged_count and newest > self._paged[0][0]:
            self._sort_head()
        elif self._released_count:
            self._restore([message for message in ordered if not message.frames])

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Drop contents from memory that the journal has too, after consumers have received them."""
        released = [message for message in messages if message.position and message.frames]
        for message in released:
            message.frames = b""
        released_bytes = sum([message.body_size for message in released])
        self._released_count += len(released)
        self._released_bytes += released_bytes
        self._budget.used_bytes -= released_bytes

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """Return fetched messages with their contents, except those that are damaged on disk."""
        released = [message for message in messages if not message.frames] if self._released_count else []
        if not released:
            return list(messages)
        self._read_contents(released)
        return [message for message in messages if message.frames]

    def delivered(self, sequence: int) -> None:
        """Record that messages up to `sequence` were delivered, so that a restart marks them redelivered."""
        if self._durable:
            self._store.delivered(sequence)

    def forget_producers(self, producers: list[str]) -> None:
        """Remove the recorded publish ids of these producers."""
        self._store.forget_producers(producers)

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Return ready messages that are in memory only."""
        messages: list[Message] = []
        for message in takewhile(lambda message: message.sequence < end, self._head):
            if message.sequence >= first and not message.position:
                messages.append(message)
                if len(messages) >= limit:
                    break
        return messages

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
        """Delete everything, including the store."""
        self.forget_all()
        self._store.erase()

    def unstored(self) -> list[Message]:
        """Return all ready messages that are in memory only; paged messages are in the store."""
        return [message for message in self._head if not message.position]


def _sequence(message: Message) -> int:
    return message.sequence


AnyBacking = PagedQueue | BackingQueue
"""Any BackingQueue. Compiled code calls the class that is named here directly, and others by method name."""
