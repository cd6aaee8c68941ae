"""Mirror copy of a queue: the messages that the master holds, ready for promotion.

A mirror does not distinguish ready and unacknowledged messages: it applies appends and removals. Persistent
messages of a durable queue go from the ring to the journal as encoded bytes, and cost no memory. Other
messages stay in memory while they are few, and are paged out when they are many. After promotion all messages
are ready again, and those that a consumer may have seen are marked redelivered (redelivery-marked, G5).

During a synchronisation, old messages and their removals arrive on different paths, and a message may arrive
(again) after its removal. So the copy remembers removals until the synchronisation ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat

from mirrormq import limits
from mirrormq.errors import DamageError
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
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.sequences.spans import Span

Head = tuple[bytes, int, int]
"""Publish payload, expiry time and ingestion time of a message."""


class MirrorCopy:
    """Messages of one mirror."""

    def __init__(
        self, store: QueueStore, budget: MemoryBudget, *, durable: bool, in_memory: Iterable[Message] = ()
    ) -> None:
        self._store = store
        self._budget = budget
        self._durable = durable
        self._memory: dict[int, tuple[Head, bytes]] = {}
        """Messages that are not in the store: head and content frames, by sequence."""
        self._memory_bytes = 0
        self.lazy = False
        """Lazy mode: keep as little as possible in memory."""
        self.delivered_up_to = 0
        self.delivered_by: dict[str, int] = {}
        """Highest sequence delivered to clients of each node, while the master is gated
        (`queues.kept_deliveries`)."""
        self.gated = False
        self.known_up_to = 0
        """Highest sequence received: a complete copy is complete up to here."""
        self.producers: dict[str, int] = {}
        """Highest publish number of each producer."""
        self._brought: dict[str, int] = {}
        """Highest publish number of each producer that the ring has brought since this member began."""
        self._introduced: Mapping[str, int] = {}
        """Publish numbers that the master knew; valid for this copy once it has every message."""
        self._doubtful: dict[tuple[str, int], int] = {}
        """Producer and number → sequence of messages from an earlier start, which the master may have under
        another sequence. Kept until this mirror has reported to the master what it has."""
        self._removed_meanwhile: SequenceSet | None = None
        for message in in_memory:
            head = (message.envelope.publish, message.expires_at, message.ingested_ms)
            self._remember(message.sequence, [head], [message.frames])

    # -- operations of the master ---------------------------------------------------------------

    def apply(self, operations: Sequence[bytes]) -> None:
        """Apply operations of the master to the copy."""
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
        # They may be in memory from before the synchronisation: without this their bytes would count twice.
        if self._removed_meanwhile is not None and self._memory:
            self._forget([Span(append.first_sequence, size)])
        self._keep(append)
        if append.producer:
            if self._doubtful:
                self._replace_doubtful(append)
            last_number = append.first_number + size - 1
            for highest in (self.producers, self._brought):
                if last_number > highest.get(append.producer, 0):
                    highest[append.producer] = last_number
            if append.producer_ids:
                _raise(self.producers, append.producer_ids)
                _raise(self._brought, append.producer_ids)

    def _keep(self, append: AppendOperation) -> None:
        self.known_up_to = max(self.known_up_to, append.first_sequence + len(append.contents) - 1)
        times = append.times(self._store.now_ms)
        if self._durable and append.persistent:
            if append.producer_ids:
                self._store.record_producer_id(append.producer_ids, self.known_up_to + 1)
            self._store.append_contents(
                append.first_sequence, append.payloads(), append.contents, append.expires_at, durable=True,
                ingested_ms=times,
            )  # fmt: skip
        else:
            heads = list(zip(append.payloads(), repeat(append.expires_at), times, strict=False))
            self._remember(append.first_sequence, heads, append.contents)

    def _remember(self, first: int, heads: Sequence[Head], contents: Sequence[bytes]) -> None:
        """Keep messages in memory, or write all of them out if they are too many."""
        self._memory.update(zip(count(first), zip(heads, contents, strict=True), strict=False))
        size_bytes = sum(map(len, contents))
        self._memory_bytes += size_bytes
        budget = self._budget
        budget.used_bytes += size_bytes + len(contents) * limits.MESSAGE_OVERHEAD_BYTES
        kept = budget.limits
        if (
            len(self._memory) > (kept.lazy_head_messages if self.lazy else kept.mirror_memory_messages)
            or self._memory_bytes > kept.mirror_memory_bytes
            or budget.used_bytes > budget.limit_bytes
        ):
            self.page_out()

    def page_out(self) -> None:
        """Write out messages in memory, in runs with the same lifetime."""
        memory = sorted(self._memory.items())
        self.forget_memory()
        start = 0
        for end in range(1, len(memory) + 1):
            if end == len(memory) or not _follows(memory[end - 1], memory[end]):
                first, ((_, expires_at, _), _) = memory[start]
                publishes = [publish for _, ((publish, _, _), _) in memory[start:end]]
                times = [ingested_ms for _, ((_, _, ingested_ms), _) in memory[start:end]]
                contents = [frames for _, (_, frames) in memory[start:end]]
                self._store.append_contents(
                    first, publishes, contents, expires_at, durable=False, ingested_ms=times
                )
                start = end

    def forget_memory(self) -> None:
        """Discard the messages in memory."""
        self._budget.used_bytes -= self._memory_bytes + len(self._memory) * limits.MESSAGE_OVERHEAD_BYTES
        self._memory = {}
        self._memory_bytes = 0

    def _remove(self, ranges: list[Span]) -> None:
        if self._removed_meanwhile is not None:
            for first, size in ranges:
                self._removed_meanwhile.add(first, size)
        if self._memory:
            self._forget(ranges)
        if self._store.live_count:
            self._store.forget_ranges(ranges)

    def _forget(self, ranges: list[Span]) -> None:
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
        """Record that consumers have had everything up to `sequence`."""
        self.delivered_up_to = max(self.delivered_up_to, sequence)
        if self._durable:
            self._store.delivered(sequence)

    def begin_again(self, operations: Sequence[bytes], *, doubtful: bool) -> None:
        """Restart from the ring's beginning: undo the appends of these operations, because they never
        happened. Their messages may come again. Synchronisation brings back what they removed. If it is
        `doubtful` whether they happened, their messages stay until they come again."""
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
            self._remove([Span(operation.first_sequence, len(operation.contents))])
            if operation.producer in self.producers:
                known = self.producers[operation.producer]
                self.producers[operation.producer] = min(known, operation.first_number - 1)
            if operation.producer_ids:
                self._reset_producer_ids(operation)

    def _reset_producer_ids(self, append: AppendOperation) -> None:
        """Lower publish ids below the first of each producer in `append`, so that its messages may come
        again."""
        for frames in append.contents:
            found = publish_ids_in(properties_of(frames))
            if found is not None and found[0] in self.producers:
                self.producers[found[0]] = min(self.producers[found[0]], found[1] - 1)
        self._write_producer_ids()

    def _write_producer_ids(self) -> None:
        """Rewrite the stored publish ids, which may be too high."""
        if self._durable:
            known = publish_ids_only(self.producers)
            if known or self._store.producer_ids():
                self._store.replace_producer_ids(known, self.known_up_to + 1)

    def _replace_doubtful(self, append: AppendOperation) -> None:
        """Drop doubtful messages that `append` brings under another sequence: they did happen."""
        for offset in range(len(append.contents)):
            sequence = self._doubtful.pop((append.producer, append.first_number + offset), 0)
            if sequence and sequence != append.first_sequence + offset:
                self._remove([Span(sequence, 1)])

    # -- synchronisation ------------------------------------------------------------------------

    def held(self) -> SequenceSet:
        """Return every sequence in memory or in the journal."""
        found = SequenceSet()
        for first, mask in self._store.masks():
            found.add_mask(first, mask)
        for number in self._memory:
            found.add(number)
        return found

    def messages(self) -> list[Message]:
        """Return all messages, oldest first, for comparison of copies. Messages that are damaged on disk are
        left out, and noted for repair."""
        stored = [number for number in self.held().numbers() if number not in self._memory]
        try:
            found = self._store.load(stored)
        except DamageError as damage:
            found = self._store.load(sorted(set(stored).difference(damage.sequences)))
        in_memory = [_message(number, *self._memory[number]) for number in self._memory]
        return sorted([*found, *in_memory], key=lambda message: message.sequence)

    def begin_synchronisation(self) -> SequenceSet:
        """Return the sequences held now. From here on the master decides which of them the mirror keeps."""
        self._removed_meanwhile = SequenceSet()
        self._doubtful = {}
        return self.held()

    def introduce(
        self, delivered_up_to: int, producers: Mapping[str, int], delivered_by: Mapping[str, int], gated: bool
    ) -> None:
        """Take over the master's publish ids and delivery marks, as known when the mirror joined. Publish ids
        count only when the messages have arrived too: a publish that only one of both copies has had is not
        known."""
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
        """Add older messages from the master, except those that the ring has brought or removed already."""
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
                payloads, times = append.payloads(), append.times(self._store.now_ms)
                for offset in wanted:
                    self._keep(append.single(offset, payloads[offset], times[offset]))
        self.deliver(self.delivered_up_to)  # a store that had no messages took no marks either

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Return the first `limit` messages in [first, end) that are in memory only, ascending."""
        numbers = sorted([number for number in self._memory if first <= number < end])[:limit]
        return [_message(number, *self._memory[number]) for number in numbers]

    def _has(self, sequence: int) -> bool:
        return sequence in self._memory or self._store.has(sequence)

    def end_synchronisation(self) -> None:
        """End the synchronisation: the copy is complete, and removals arrive in order from now on."""
        self._removed_meanwhile = None
        _raise(self.producers, self._introduced)
        self._introduced = {}
        self._write_producer_ids()

    def drop(self, ranges: list[Span]) -> None:
        """Drop messages that the master does not have."""
        self._remove(ranges)


def _message(sequence: int, head: Head, frames: bytes) -> Message:
    message = Message(make_envelope(head[0], properties_of(frames)), frames, head[1])
    message.sequence, message.ingested_ms = sequence, head[2]
    return message


def _raise(highest: dict[str, int], numbers: Mapping[str, int]) -> None:
    for producer, number in numbers.items():
        highest[producer] = max(highest.get(producer, 0), number)


def _follows(one: tuple[int, tuple[Head, bytes]], other: tuple[int, tuple[Head, bytes]]) -> bool:
    """Return whether two messages can be written in one run."""
    return other[0] == one[0] + 1 and other[1][0][1] == one[1][0][1]
