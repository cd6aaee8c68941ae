"""A mirror's copy of a queue: what the master holds, kept ready to be taken over.

A mirror has no ready and no unacknowledged messages, only messages: what comes goes in, what goes is
forgotten. Persistent ones of a durable queue go straight to the journal and cost no memory; others
are held in memory, and paged out like a long queue's when there are many. When the mirror becomes
master all of it is ready again, and what had been with a consumer says so (G5).

While a synchronisation runs, old messages and news of their removal come by different roads, and a
message may come (again) after it has gone. So what is removed meanwhile is remembered until the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirrormq import limits
from mirrormq.queues.backing import QueueStore
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope, Message
from mirrormq.replication.operations import Append, Delivered, Forget, Operation, Remove
from mirrormq.replication.ranges import Range, RangeSet


class MirrorCopy:
    """One mirror's messages."""

    def __init__(self, store: QueueStore, held: Iterable[Range], *, durable: bool) -> None:
        self._store = store
        self._durable = durable
        self._memory: dict[int, Message] = {}
        self.held = RangeSet(held)
        """Every sequence it has, in memory or in the journal."""
        self.next_sequence = 1
        self.delivered_up_to = 0
        self.producers: dict[str, int] = {}
        """The highest publish number of each producer on another node."""
        self._removed_meanwhile: RangeSet | None = None
        self._envelope: Envelope | None = None

    def apply(self, operations: Sequence[Operation]) -> None:
        """Do what the master did."""
        for operation in operations:
            if isinstance(operation, Append):
                self._append(operation)
            elif isinstance(operation, Remove):
                self._remove(operation.ranges)
            elif isinstance(operation, Delivered):
                self.delivered_up_to = max(self.delivered_up_to, operation.sequence)
                if self._durable:
                    self._store.delivered(operation.sequence)
            elif isinstance(operation, Forget):
                self.producers.pop(operation.producer, None)

    def _append(self, operation: Append) -> None:
        envelope = self._envelope
        if envelope is None or (envelope.publish, envelope.properties) != (
            operation.publish,
            operation.properties,
        ):
            envelope = self._envelope = make_envelope(operation.publish, operation.properties)
        messages = []
        for offset, frames in enumerate(operation.frames):
            message = Message(envelope, frames, operation.expires_at)
            message.sequence = operation.first_sequence + offset
            messages.append(message)
        self._keep(messages)
        self.next_sequence = max(self.next_sequence, operation.first_sequence + len(messages))
        if operation.producer:
            last = operation.first_number + len(messages) - 1
            self.producers[operation.producer] = max(self.producers.get(operation.producer, 0), last)

    def _keep(self, messages: list[Message]) -> None:
        if self._durable and messages[0].envelope.persistent:
            self._store.append(messages, durable=True)
        else:
            self._memory.update((message.sequence, message) for message in messages)
            if len(self._memory) > limits.HEAD_MESSAGES:
                self._page_out()
        for message in messages:
            self.held.add(message.sequence)

    def _page_out(self) -> None:
        self._store.append(list(self._memory.values()), durable=False)
        self._memory.clear()

    def _remove(self, ranges: Iterable[Range]) -> None:
        for first, size in ranges:
            if self._removed_meanwhile is not None:
                self._removed_meanwhile.add(first, size)
            if self.held.remove(first, size):
                stored = [
                    number for number in range(first, first + size) if not self._memory.pop(number, None)
                ]
                self._store.forget(stored)

    # -- synchronisation ------------------------------------------------------------------------

    def begin_synchronisation(self) -> list[Range]:
        """Says what it has already."""
        self._removed_meanwhile = RangeSet()
        return self.held.ranges()

    def synchronise(self, messages: Sequence[Message]) -> None:
        """Older messages from the master."""
        gone = self._removed_meanwhile or RangeSet()
        for message in messages:
            if message.sequence not in self.held and message.sequence not in gone:
                self._keep([message])

    def end_synchronisation(self) -> None:
        """It has everything; removals come in order from now on."""
        self._removed_meanwhile = None

    def drop(self, ranges: Iterable[Range]) -> None:
        """Messages that the master does not have (any more)."""
        self._remove(ranges)

    # -- taking over ----------------------------------------------------------------------------

    def hand_over(self) -> list[int]:
        """Everything is in the store now; returns the sequences, ascending. The copy is done with."""
        if self._memory:
            self._page_out()
        return list(self.held.numbers())
