"""A mirror's copy of a queue: what the master holds, kept ready to be taken over.

A mirror has no ready and no unacknowledged messages, only messages: what comes goes in, what goes is
forgotten. Persistent ones of a durable queue go straight from the ring to the journal, as the bytes that
they are, and cost no memory; others stay in memory while they are few, and are written out when they
are many. When the mirror becomes master all of it is ready again, and what had been with a consumer
says so (G5).

While a synchronisation runs, old messages and news of their removal come by different roads, and a
message may come (again) after it has gone. So what is removed meanwhile is remembered until the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat

from mirrormq import limits
from mirrormq.queues.backing import QueueStore
from mirrormq.queues.envelope import make_envelope, properties_of
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import publish_ids_in, publish_ids_only
from mirrormq.replication.ring_operations import (
    AppendOperation,
    DeliveredOperation,
    DeliveredTo,
    ForgetOperation,
    Gated,
    RemoveOperation,
    decode,
)
from mirrormq.replication.sequence_set import Range, SequenceSet

Head = tuple[bytes, int]
"""What messages of one Append have in common: the publish payload, and when they expire."""


class MirrorCopy:
    """One mirror's messages."""

    def __init__(
        self, store: QueueStore, budget: MemoryBudget, *, durable: bool, in_memory: Iterable[Message] = ()
    ) -> None:
        self._store = store
        self._budget = budget
        self._durable = durable
        self._memory: dict[int, tuple[Head, bytes]] = {}
        """Messages that are not in the store: what they share with others, and their content frames."""
        self._memory_bytes = 0
        self.lazy = False
        """Keep as little as possible in memory."""
        self.delivered_up_to = 0
        self.delivered_by: dict[str, int] = {}
        """The same for clients of each node, while the master is gated (`queues.kept_deliveries`)."""
        self.gated = False
        self.known_up_to = 0
        """The highest sequence that has come: if the copy is complete, it is so up to here."""
        self.producers: dict[str, int] = {}
        """The highest publish number of each producer …"""
        self._brought: dict[str, int] = {}
        """… and what the ring has brought of that since this member began."""
        self._introduced: Mapping[str, int] = {}
        """What a master knew of producers; true of this copy when it has everything."""
        self._doubtful: dict[tuple[str, int], int] = {}
        """Producer and number → sequence of messages that it has from an earlier beginning, and that the
        master may have under another sequence. Until it has told the master what it has."""
        self._removed_meanwhile: SequenceSet | None = None
        for message in in_memory:
            head = (message.envelope.publish, message.expires_at)
            self._remember(message.sequence, head, [message.frames])

    # -- what the master does -------------------------------------------------------------------

    def apply(self, operations: Sequence[bytes]) -> None:
        """Do what the master did."""
        for data in operations:
            operation = decode(data)
            if isinstance(operation, AppendOperation):
                self._append(operation)
            elif isinstance(operation, RemoveOperation):
                self._remove(operation.ranges)
            elif isinstance(operation, DeliveredOperation):
                self.deliver(operation.sequence)
            elif isinstance(operation, DeliveredTo):
                self.deliver(operation.sequence)
                _raise(self.delivered_by, {operation.holder: operation.sequence})
            elif isinstance(operation, Gated):
                self.gated = operation.on
            elif isinstance(operation, ForgetOperation):
                for producer in operation.producers:
                    self.producers.pop(producer, None)
                    self._brought.pop(producer, None)
                if self._durable:
                    self._store.forget_producers(operation.producers)

    def _append(self, append: AppendOperation) -> None:
        size = len(append.contents)
        if self._removed_meanwhile is not None and self._memory:
            self._forget([(append.first_sequence, size)])
        self._keep(append)
        if append.producer:
            if self._doubtful:
                self._replace_doubtful(append)
            last = {append.producer: append.first_number + size - 1, **append.producer_ids}
            _raise(self.producers, last)
            _raise(self._brought, last)

    def _keep(self, append: AppendOperation) -> None:
        self.known_up_to = max(self.known_up_to, append.first_sequence + len(append.contents) - 1)
        if self._durable and append.persistent:
            if append.producer_ids:
                self._store.record_producer_id(append.producer_ids, self.known_up_to + 1)
            self._store.append_contents(
                append.first_sequence, append.publish, append.contents, append.expires_at, durable=True
            )
        else:
            self._remember(append.first_sequence, (append.publish, append.expires_at), append.contents)

    def _remember(self, first: int, head: Head, contents: Sequence[bytes]) -> None:
        """Keep messages in memory, or write all of them out if they are too many."""
        self._memory.update(zip(count(first), zip(repeat(head), contents), strict=False))
        size_bytes = sum(map(len, contents))
        self._memory_bytes += size_bytes
        self._budget.used_bytes += size_bytes + len(contents) * limits.MESSAGE_OVERHEAD_BYTES
        if (
            len(self._memory) > (limits.LAZY_HEAD_MESSAGES if self.lazy else limits.MIRROR_MEMORY_MESSAGES)
            or self._memory_bytes > limits.MIRROR_MEMORY_BYTES
            or self._budget.used_bytes > self._budget.limit_bytes
        ):
            self.page_out()

    def page_out(self) -> None:
        """Write out what is in memory, in runs that share their head."""
        memory = sorted(self._memory.items())
        self.forget_memory()
        start = 0
        for end in range(1, len(memory) + 1):
            if end == len(memory) or not _follows(memory[end - 1], memory[end]):
                first, (head, _) = memory[start]
                contents = [frames for _, (_, frames) in memory[start:end]]
                self._store.append_contents(first, head[0], contents, head[1], durable=False)
                start = end

    def forget_memory(self) -> None:
        """What is in memory goes."""
        self._budget.used_bytes -= self._memory_bytes + len(self._memory) * limits.MESSAGE_OVERHEAD_BYTES
        self._memory = {}
        self._memory_bytes = 0

    def _remove(self, ranges: list[Range]) -> None:
        if self._removed_meanwhile is not None:
            for first, size in ranges:
                self._removed_meanwhile.add(first, size)
        if self._memory:
            self._forget(ranges)
        if self._store.live_count:
            self._store.forget_ranges(ranges)

    def _forget(self, ranges: list[Range]) -> None:
        pop, gone_bytes, before = self._memory.pop, 0, len(self._memory)
        for first, size in ranges:
            numbers: Iterable[int] = range(first, first + size)
            if size > len(self._memory):
                numbers = [number for number in self._memory if first <= number < first + size]
            for number in numbers:
                found = pop(number, None)
                if found is not None:
                    gone_bytes += len(found[1])
        self._memory_bytes -= gone_bytes
        gone = before - len(self._memory)
        self._budget.used_bytes -= gone_bytes + gone * limits.MESSAGE_OVERHEAD_BYTES

    def deliver(self, sequence: int) -> None:
        """Everything up to `sequence` has been with a consumer."""
        self.delivered_up_to = max(self.delivered_up_to, sequence)
        if self._durable:
            self._store.delivered(sequence)

    def begin_again(self, operations: Sequence[bytes], *, doubtful: bool) -> None:
        """The ring begins again, and these operations have never happened: what they brought goes, and may
        come again. What they took away is for synchronisation to bring back. If it is doubtful whether
        they have happened, what they brought stays until it comes again."""
        self._brought = {}
        for data in operations:
            operation = decode(data)
            if not isinstance(operation, AppendOperation):
                continue
            if doubtful:
                for offset in range(len(operation.contents)):
                    key = (operation.producer, operation.first_number + offset)
                    self._doubtful[key] = operation.first_sequence + offset
                continue
            self._remove([(operation.first_sequence, len(operation.contents))])
            if operation.producer in self.producers:
                known = self.producers[operation.producer]
                self.producers[operation.producer] = min(known, operation.first_number - 1)
            if operation.producer_ids:
                self._reset_producer_ids(operation)

    def _reset_producer_ids(self, append: AppendOperation) -> None:
        """Presented messages have never come: what is not above the first of each may come again."""
        for frames in append.contents:
            found = publish_ids_in(properties_of(frames))
            if found is not None and found[0] in self.producers:
                self.producers[found[0]] = min(self.producers[found[0]], found[1] - 1)
        self._write_producer_ids()

    def _write_producer_ids(self) -> None:
        """What was written down of clients may have been too much."""
        if self._durable:
            known = publish_ids_only(self.producers)
            if known or self._store.producer_ids():
                self._store.replace_producer_ids(known, self.known_up_to + 1)

    def _replace_doubtful(self, append: AppendOperation) -> None:
        """Messages that are here under another sequence have happened after all."""
        for offset in range(len(append.contents)):
            sequence = self._doubtful.pop((append.producer, append.first_number + offset), 0)
            if sequence and sequence != append.first_sequence + offset:
                self._remove([(sequence, 1)])

    # -- synchronisation ------------------------------------------------------------------------

    def held(self) -> SequenceSet:
        """Every sequence it has, in memory or in the journal."""
        found = SequenceSet()
        for first, mask in self._store.masks():
            found.add_mask(first, mask)
        for number in self._memory:
            found.add(number)
        return found

    def contents(self) -> list[bytes]:
        """The content frames of everything it has, oldest first: for those who compare copies."""
        numbers = list(self.held().numbers())
        stored = [number for number in numbers if number not in self._memory]
        found = {message.sequence: message.frames for message in self._store.load(stored)}
        return [found[number] if number in found else self._memory[number][1] for number in numbers]

    def begin_synchronisation(self) -> SequenceSet:
        """Says what it has already; from now on the master knows what is to be kept."""
        self._removed_meanwhile = SequenceSet()
        self._doubtful = {}
        return self.held()

    def introduce(
        self, delivered_up_to: int, producers: Mapping[str, int], delivered_by: Mapping[str, int], gated: bool
    ) -> None:
        """What the master knew when the mirror joined, beside the messages. Until they are here as well, no
        publish counts as known that only one of the two has had."""
        self.deliver(delivered_up_to)
        _raise(self.delivered_by, delivered_by)
        self.gated = gated
        self._introduced = producers
        self.producers = {
            name: min(number, producers[name]) for name, number in self.producers.items() if name in producers
        }
        _raise(self.producers, self._brought)
        self._write_producer_ids()

    def synchronise(self, batch: Iterable[AppendOperation]) -> None:
        """Older messages from the master; the ring may have brought some of them, or news of their end."""
        gone = self._removed_meanwhile or SequenceSet()
        for append in batch:
            first = append.first_sequence
            wanted = [
                offset
                for offset in range(len(append.contents))
                if first + offset not in gone and not self._has(first + offset)
            ]
            if len(wanted) == len(append.contents):
                self._keep(append)
            else:
                for offset in wanted:
                    contents = [append.contents[offset]]
                    self._keep(
                        AppendOperation(
                            first + offset, append.publish, append.persistent, append.expires_at, contents
                        )
                    )
        self.deliver(self.delivered_up_to)  # a store that had no messages took no marks either

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """The first `limit` messages in [first, end) that are in memory only, ascending."""
        numbers = sorted([number for number in self._memory if first <= number < end])[:limit]
        return [_message(number, *self._memory[number]) for number in numbers]

    def _has(self, sequence: int) -> bool:
        return sequence in self._memory or self._store.has(sequence)

    def end_synchronisation(self) -> None:
        """It has everything; removals come in order from now on."""
        self._removed_meanwhile = None
        _raise(self.producers, self._introduced)
        self._introduced = {}
        self._write_producer_ids()

    def drop(self, ranges: list[Range]) -> None:
        """Messages that the master does not have (any more)."""
        self._remove(ranges)


def _message(sequence: int, head: Head, frames: bytes) -> Message:
    message = Message(make_envelope(head[0], properties_of(frames)), frames, head[1])
    message.sequence = sequence
    return message


def _raise(highest: dict[str, int], numbers: Mapping[str, int]) -> None:
    for producer, number in numbers.items():
        highest[producer] = max(highest.get(producer, 0), number)


def _follows(one: tuple[int, tuple[Head, bytes]], other: tuple[int, tuple[Head, bytes]]) -> bool:
    """Can two messages be written in one run?"""
    return other[0] == one[0] + 1 and other[1][0] == one[1][0]
