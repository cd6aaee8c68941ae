"""Pages of a queue: a head of messages in memory, and the rest of the backlog in the journal.

                 contents in memory        contents in the journal only
    ready        head (messages)           paged (sequences)
    unacked      with consumers            with consumers, released      leased (spans)

    fetch ←  head  ←  paged  ←  publish

While nothing is paged, a published message joins the head and is never read back. Once the head is full,
messages are kept by sequence only. A message that the journal has anyway (persistent, durable queue) costs
nothing more; any other is written there first, without fsync. When the head is empty, the next few thousand
messages are read back at once. Fetching follows sequence order, so a fetched message is older than every
paged one, and a requeue changes the head alone. (Returned leases are the exception: `queues.leased_pages`.)

An unacknowledged message keeps its sequence. If very many messages are unacknowledged, their contents leave
memory: they are *released* until a requeue, or until dead-lettering needs them. If more messages return at
once than the head can hold, the younger ones of the head are paged again.

This file does the accounting and moves messages between these places. `queues.leased_pages` adds leases, and
`queues.paged_queue` implements BackingQueue with both.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from mirrormq import limits
from mirrormq.errors import DamageError
from mirrormq.queues.backing import ANY_BYTES, ANY_SEQUENCE, QueueStore
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import Message
from mirrormq.sequences.spans import Span


class Pages:
    """Messages of one queue over one QueueStore, with counts and bytes for each place."""

    def __init__(
        self, store: QueueStore, budget: MemoryBudget, *, durable: bool, lazy: bool = False,
        next_sequence: int = 1, redelivered_up_to: int = 0, warn: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._budget = budget
        self._durable = durable
        self._warn = warn
        self._redelivered_up_to = redelivered_up_to
        """Highest sequence that counts as redelivered when its message is read back."""
        self.lazy = lazy
        self._head: deque[Message] = deque()
        self._head_bytes = 0
        self._paged: deque[array[int]] = deque()
        self._paged_count = 0
        self._paged_bytes = 0
        self._released_count = 0
        self._released_bytes = 0
        self._damaged: set[int] = set()
        """Sequences that the store holds and cannot read: not ready until they are rewritten."""
        self._leased_out: list[Span] = []
        self._leased_out_count = 0
        self._leased_out_bytes = 0
        self.next_sequence = next_sequence
        self.ready_count = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.disk_reads = 0
        self.disk_writes = 0

    def _is_full(self, stored: bool) -> bool:
        count, budget = len(self._head), self._budget
        limits = budget.limits
        if self.lazy or budget.used_bytes > budget.limit_bytes:
            return count >= limits.lazy_head_messages
        if stored:
            return count >= limits.head_stored_messages or self._head_bytes >= limits.head_stored_bytes
        return count >= limits.head_messages or self._head_bytes >= limits.head_bytes

    def _hot(self, body_bytes: int, count: int) -> None:
        self._head_bytes += body_bytes
        self._budget.used_bytes += body_bytes + count * limits.MESSAGE_OVERHEAD_BYTES

    def _page_out(self, messages: Sequence[Message], total_bytes: int) -> None:
        self._write_out(messages)
        self._page([message.sequence for message in messages], total_bytes)

    def _write_out(self, messages: Sequence[Message]) -> None:
        """Write out everything but the sequences of these messages, which are in ascending order."""
        unstored = [message for message in messages if not message.position]
        if unstored:
            self._store.append(unstored, durable=False)
            self.disk_writes += len(unstored)
        delivered = [message.sequence for message in messages if message.redelivered]
        if delivered:
            self._redelivered_up_to = max(self._redelivered_up_to, delivered[-1])

    def _page(self, sequences: Sequence[int], total_bytes: int) -> None:
        chunks = self._paged
        if not chunks or len(chunks[-1]) + len(sequences) > self._budget.limits.page_messages:
            for start in range(0, len(sequences), self._budget.limits.page_messages):
                chunks.append(array("Q", sequences[start : start + self._budget.limits.page_messages]))
        else:
            chunks[-1].extend(sequences)
        self._paged_count += len(sequences)
        self._paged_bytes += total_bytes

    def _page_in(self) -> None:
        chunk = self._paged[0]
        average = max(1, self._paged_bytes // self._paged_count)
        count = max(1, min(len(chunk), self._budget.limits.page_in_bytes // average))
        if count >= len(chunk):
            self._paged.popleft()
        else:
            self._paged[0] = chunk[count:]
            chunk = chunk[:count]
        messages = self._load(chunk)
        self.disk_reads += len(messages)
        if chunk[0] <= self._redelivered_up_to:
            for message in messages:
                message.redelivered = message.sequence <= self._redelivered_up_to
        total_bytes = sum([message.body_size for message in messages])
        self._paged_count -= len(chunk)
        self._paged_bytes -= total_bytes
        self._head.extend(messages)
        self._hot(total_bytes, len(messages))

    def _load(self, sequences: Sequence[int]) -> list[Message]:
        """Read messages back without those that are damaged on disk, which are neither ready nor gone."""
        try:
            return self._store.load(sequences)
        except DamageError as damage:
            lost_bytes = sum(map(self._store.size_of, damage.sequences))
            self._damaged.update(damage.sequences)
            self._paged_bytes -= lost_bytes
            self.ready_bytes -= lost_bytes
            self.ready_count -= len(damage.sequences)
            self._report(damage)
            lost = set(damage.sequences)
            return self._store.load([sequence for sequence in sequences if sequence not in lost])

    def _report(self, damage: DamageError) -> None:
        if self._warn is not None:
            self._warn(f"not served: {damage}")

    @property
    def damaged_count(self) -> int:
        """Number of stored messages that are damaged."""
        return len(self._damaged)

    def leave_out(self, sequences: Iterable[int]) -> None:
        """Record damaged stored messages: they are neither ready nor gone."""
        self._damaged.update(sequences)

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Read stored messages; raises DamageError."""
        return self._store.load(sequences)

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make damaged messages ready that have been rewritten; returns their number."""
        back = sorted(self._damaged.intersection(sequences))
        if not back:
            return 0
        self._damaged.difference_update(back)
        if self._head:
            self._spill(0)
        total_bytes = sum(map(self._store.size_of, back))
        count = len(back)
        self._insert(back)
        self._paged_count += count
        self._paged_bytes += total_bytes
        self.ready_count += count
        self.ready_bytes += total_bytes
        return count

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Take up to `limit` messages from the head."""
        head = self._head
        while not head and self._paged_count:
            self._page_in()
        if limit >= len(head):
            messages = list(head)
            head.clear()
        else:
            popleft = head.popleft
            messages = [popleft() for _ in range(limit)]
        while messages and messages[-1].sequence > up_to:
            head.appendleft(messages.pop())
        total_bytes = sum([message.body_size for message in messages])
        if total_bytes > limit_bytes:
            total_bytes = self._cut(messages, limit_bytes)
        count = len(messages)
        self._head_bytes -= total_bytes
        self.ready_count -= count
        self.ready_bytes -= total_bytes
        self.unacked_count += count
        self.unacked_bytes += total_bytes
        return messages

    def _cut(self, messages: list[Message], limit_bytes: int) -> int:
        """Put what is too much back at the head; gives the bytes of the rest."""
        kept, total_bytes = 1, messages[0].body_size
        for message in messages[1:]:
            if total_bytes + message.body_size > limit_bytes:
                break
            total_bytes += message.body_size
            kept += 1
        self._head.extendleft(reversed(messages[kept:]))
        del messages[kept:]
        return total_bytes

    def _uncount_released(self, messages: Sequence[Message]) -> int:
        """Uncount released messages whose contents return to memory; returns their bytes."""
        sizes = [message.body_size for message in messages if not message.frames]
        total_bytes = sum(sizes)
        self._released_count -= len(sizes)
        self._released_bytes -= total_bytes
        return total_bytes

    def _read_contents(self, released: Sequence[Message]) -> None:
        """Load the contents of released messages; damaged ones stay without contents."""
        for start in range(0, len(released), self._budget.limits.page_messages):
            part = released[start : start + self._budget.limits.page_messages]
            sequences = [message.sequence for message in part]
            try:
                loaded = self._store.load(sequences)
            except DamageError as damage:
                self._report(damage)
                lost = set(damage.sequences)
                loaded = self._store.load([sequence for sequence in sequences if sequence not in lost])
            contents = {message.sequence: message.frames for message in loaded}
            self.disk_reads += len(loaded)
            found = [message for message in part if message.sequence in contents]
            self._budget.used_bytes += self._uncount_released(found)
            for message in found:
                message.frames = contents[message.sequence]

    def _restore(self, released: Sequence[Message]) -> None:
        """Load the contents of released messages in the head, or page the messages if they are too many."""
        if not released:
            return
        if len(self._head) > self._budget.limits.head_stored_messages:
            self._spill(self._budget.limits.page_messages)
            youngest = self._head[-1].sequence
            released = [message for message in released if message.sequence <= youngest]
        self._read_contents(released)
        lost = [message for message in released if not message.frames]
        if lost:
            kept = [message for message in self._head if message.frames]
            self._head.clear()
            self._head.extend(kept)
            lost_bytes = self._uncount_released(lost)
            self._head_bytes -= lost_bytes
            self._budget.used_bytes -= len(lost) * limits.MESSAGE_OVERHEAD_BYTES
            self.ready_count -= len(lost)
            self.ready_bytes -= lost_bytes
            self._damaged.update(message.sequence for message in lost)

    def _spill(self, keep: int) -> None:
        """Page all messages of the head but its oldest `keep`, in front of the paged ones."""
        head = self._head
        spilled = [head.pop() for _ in range(len(head) - keep)]
        spilled.reverse()
        self._write_out(spilled)
        total_bytes = sum([message.body_size for message in spilled])
        self._hot(-total_bytes, -len(spilled))
        self._budget.used_bytes += self._uncount_released(spilled)
        for start in reversed(range(0, len(spilled), self._budget.limits.page_messages)):
            part = spilled[start : start + self._budget.limits.page_messages]
            self._paged.appendleft(array("Q", [message.sequence for message in part]))
        self._paged_count += len(spilled)
        self._paged_bytes += total_bytes

    def _insert(self, numbers: list[int]) -> None:
        """Insert ascending sequences among the paged ones, while the head is empty."""
        chunks, last = self._paged, numbers[-1]
        while chunks and chunks[0][0] < last:
            numbers += chunks.popleft()
        numbers.sort()
        for start in reversed(range(0, len(numbers), self._budget.limits.page_messages)):
            chunks.appendleft(array("Q", numbers[start : start + self._budget.limits.page_messages]))

    def _sort_head(self) -> None:
        """Merge the head with the paged sequences: after a lease returned, the head may hold younger messages
        than these."""
        before = len(self._paged)
        self._spill(0)
        chunks = [self._paged.popleft() for _ in range(len(self._paged) - before)]
        self._insert(list(chain.from_iterable(chunks)))

    def occupancy(self) -> MemoryUse:
        """Return the numbers and bytes of messages in memory and on disk."""
        held = self.unacked_count - self._leased_out_count - self._released_count
        held_bytes = self.unacked_bytes - self._leased_out_bytes - self._released_bytes
        head = self._head[0].properties if self._head else b""
        return MemoryUse(
            len(self._head), held, self._head_bytes + held_bytes, self._paged_count, self._paged_bytes,
            self._store.durable_count, self._store.durable_bytes, self.disk_reads, self.disk_writes, head,
        )  # fmt: skip

    def forget_all(self) -> None:
        """Reset all counts and release all memory, and leave the store as it is."""
        hot_count = len(self._head) + self.unacked_count - self._leased_out_count
        hot_bytes = self._head_bytes + self.unacked_bytes - self._leased_out_bytes - self._released_bytes
        self._budget.used_bytes -= hot_bytes + hot_count * limits.MESSAGE_OVERHEAD_BYTES
        self._head.clear()
        self._paged.clear()
        self._damaged.clear()
        self._head_bytes = self._paged_count = self._paged_bytes = 0
        self.ready_count = self.ready_bytes = self.unacked_count = self.unacked_bytes = 0
        self._released_count = self._released_bytes = 0
        self._leased_out = []
        self._leased_out_count = self._leased_out_bytes = 0
