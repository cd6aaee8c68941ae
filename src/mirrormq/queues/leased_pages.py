"""Leases on top of pages: leased messages leave the ready ones and are kept by sequence.

A lease may hold a million messages for an hour. Leased messages are therefore not objects. Their contents are
in the store (contents in memory only are written there first, without fsync). Their sequences are spans,
mostly a single one. Paged messages are leased without reading them: they are a list of sequences already.

    fetch, lease_out  ←  head  ←  paged  ←  publish
                           ↖        ↑
                            return_leased

Returned sequences may be older or younger than ready ones. The head is then written out, and the returned
sequences are merged with the paged ones. After that, a fetched message may be younger than a paged one, and
a requeue merges it in the same way. Both cases are rare.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain

from mirrormq import limits
from mirrormq.errors import DamageError
from mirrormq.queues.backing import ANY_BYTES, QueueStore
from mirrormq.queues.message import Message
from mirrormq.queues.pages import Pages
from mirrormq.ranges.range_limits import LEASED_AT_ONCE_MAX
from mirrormq.sequences.spans import Span, common, count_of, joined, spans_of, without


class LeasablePages(Pages):
    """Pages with leases."""

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Span]:
        """Lease up to `limit` ready messages."""
        limit = min(limit, LEASED_AT_ONCE_MAX)
        if self._head:
            too_large = not single and self._head[0].body_size > limit_bytes
            return [] if too_large else self._lease_head(limit, limit_bytes)
        found: list[Span] = []
        count, total_bytes, fits = 0, 0, True
        while self._paged and count < limit and fits:
            chunk = self._paged[0]
            part = chunk[: limit - count]
            part_bytes = _bytes_of(self._store, part)
            fits = total_bytes + part_bytes <= limit_bytes
            if not fits:
                part, part_bytes = self._cut_part(part, limit_bytes - total_bytes, first=single and not count)
            if len(part) < len(chunk):
                self._paged[0] = chunk[len(part) :]
            else:
                self._paged.popleft()
            found += spans_of(part)
            count += len(part)
            total_bytes += part_bytes
        self._paged_count -= count
        self._paged_bytes -= total_bytes
        found = joined(found)
        self._note_leased(found, count, total_bytes)
        return found

    def _cut_part(self, part: array[int], room_bytes: int, *, first: bool) -> tuple[array[int], int]:
        """Return the prefix that fits into `room_bytes`, and its bytes; with `first`, at least one
        message."""
        kept = total_bytes = 0
        for number in part:
            size_bytes = self._store.size_of(number)
            if total_bytes + size_bytes > room_bytes and not (first and not kept):
                break
            kept += 1
            total_bytes += size_bytes
        return part[:kept], total_bytes

    def _lease_head(self, limit: int, limit_bytes: int) -> list[Span]:
        """Lease messages of the head, and write those out that are in memory only."""
        messages = self.fetch(limit, limit_bytes)
        total_bytes = sum([message.body_size for message in messages])
        self._release(messages, total_bytes)
        # `fetch` has counted them as unacknowledged. Take that back: `_note_leased` counts from ready on.
        self.unacked_count -= len(messages)
        self.unacked_bytes -= total_bytes
        self.ready_count += len(messages)
        self.ready_bytes += total_bytes
        found = spans_of([message.sequence for message in messages])
        self._note_leased(found, len(messages), total_bytes)
        return found

    def _release(self, messages: Sequence[Message], total_bytes: int) -> None:
        """Drop messages from memory, after those without a stored copy are written out."""
        unstored = [message for message in messages if not message.position]
        if unstored:
            self._store.append(unstored, durable=False)
        self._budget.used_bytes -= total_bytes + len(messages) * limits.MESSAGE_OVERHEAD_BYTES

    def _note_leased(self, spans: list[Span], count: int, total_bytes: int) -> None:
        self._leased_out = joined([*self._leased_out, *spans]) if self._leased_out else spans
        self._leased_out_count += count
        self._leased_out_bytes += total_bytes
        self.ready_count -= count
        self.ready_bytes -= total_bytes
        self.unacked_count += count
        self.unacked_bytes += total_bytes

    def lease_exact(self, spans: Sequence[Span]) -> list[Span]:
        """Lease those of these sequences that are ready."""
        wanted = list(spans)
        found: list[Span] = []
        if self._head and common(wanted, spans_of([message.sequence for message in self._head])):
            # Page the head first: below, only paged sequences are taken out.
            self._spill(0)
        chunks: deque[array[int]] = deque()
        for chunk in self._paged:
            numbers = spans_of(chunk)
            taken = common(numbers, wanted)
            if taken:
                found += taken
                chunk = _numbers(without(numbers, taken))
            if chunk:
                chunks.append(chunk)
        self._paged = chunks
        found = joined(found)
        count, total_bytes = count_of(found), sum([self._store.run_bytes(*one) for one in found])
        self._paged_count -= count
        self._paged_bytes -= total_bytes
        self._note_leased(found, count, total_bytes)
        return found

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch those of these sequences that are ready, without those that are damaged on disk."""
        # The head goes first: `lease_exact` would write it out, and transient messages would be read back.
        found = self._reclaim_head(spans)
        numbers = list(_numbers(self._note_returned(self.lease_exact(spans))))
        messages = self._load_undamaged(numbers)
        total_bytes = sum([message.body_size for message in messages])
        for message in messages:
            message.redelivered = message.sequence <= self._redelivered_up_to
        self._budget.used_bytes += total_bytes + len(messages) * limits.MESSAGE_OVERHEAD_BYTES
        self.unacked_count += len(messages)
        self.unacked_bytes += total_bytes
        self.disk_reads += len(messages)
        return found + messages

    def _reclaim_head(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch messages of the head, which stay in memory."""
        head = self._head
        wanted = set(_numbers(common(list(spans), spans_of([message.sequence for message in head]))))
        if not wanted:
            return []
        found = [message for message in head if message.sequence in wanted]
        self._head = deque([message for message in head if message.sequence not in wanted])
        total_bytes = sum([message.body_size for message in found])
        self._head_bytes -= total_bytes
        self.ready_count -= len(found)
        self.ready_bytes -= total_bytes
        self.unacked_count += len(found)
        self.unacked_bytes += total_bytes
        return found

    def _load_undamaged(self, numbers: Sequence[int]) -> list[Message]:
        """Read messages that are neither ready nor fetched, without damaged ones."""
        try:
            return self._store.load(numbers)
        except DamageError as damage:
            self._damaged.update(damage.sequences)
            self._report(damage)
            lost = set(damage.sequences)
            return self._store.load([number for number in numbers if number not in lost])

    def settle(self, spans: Sequence[Span]) -> int:
        """Remove leased messages for good."""
        gone = self._note_returned(spans)
        if gone:
            self._store.forget_ranges(gone)
        return count_of(gone)

    def _note_returned(self, spans: Sequence[Span]) -> list[Span]:
        gone = common(self._leased_out, list(spans))
        self._leased_out = without(self._leased_out, gone)
        count, total_bytes = count_of(gone), sum([self._store.run_bytes(*one) for one in gone])
        self._leased_out_count -= count
        self._leased_out_bytes -= total_bytes
        self.unacked_count -= count
        self.unacked_bytes -= total_bytes
        return gone

    def return_leased(self, spans: Sequence[Span]) -> int:
        """Return leased messages to their positions."""
        back = self._note_returned(spans)
        if not back:
            return 0
        if self._head:
            self._spill(0)
        count, total_bytes = count_of(back), sum([self._store.run_bytes(*one) for one in back])
        last = back[-1][0] + back[-1][1] - 1
        self._redelivered_up_to = max(self._redelivered_up_to, last)
        self._insert(list(_numbers(back)))
        self._paged_count += count
        self._paged_bytes += total_bytes
        self.ready_count += count
        self.ready_bytes += total_bytes
        return count


def _numbers(spans: Iterable[Span]) -> array[int]:
    return array("Q", chain.from_iterable([range(first, first + count) for first, count in spans]))


def _bytes_of(store: QueueStore, numbers: Sequence[int]) -> int:
    return sum([store.run_bytes(first, count) for first, count in spans_of(numbers)])
