"""The seam between a queue and whoever keeps its messages.

A queue decides *who* gets a message; a BackingQueue keeps the messages themselves, in memory, on
disk, in several priorities, or on several nodes at once (a mirrored queue is a BackingQueue that
wraps another and tells its mirrors what it does). Whoever implements this owes the queue:

1.  Order. `fetch` gives ready messages in the order of publishing (within a priority). `requeue`
    puts each message back where it was, however often and in whatever order it is called.
2.  One owner. A message is ready, or unacknowledged (fetched), or gone. Every fetched message
    comes back exactly once, by `acknowledge` or by `requeue`.
3.  Sequence. `publish` numbers each message: 1, 2, 3 … per queue, never reused, also not after
    a restart. The number stays with the message through requeue and restart.
4.  Memory. A backlog of any length costs a bounded amount of memory plus a few bytes a message.
    A message's `frames` are present when `fetch` hands it out; after `sent` they may be empty, until
    `load_contents` or `requeue`.
5.  Durability. In a durable queue a persistent message is in the journal's next flush; one that
    was acknowledged before a crash may come back after it, one that was flushed never vanishes.
6.  Counting. `ready_count`, `ready_bytes`, `unacked_count` and `unacked_bytes` are exact at any
    time; bytes are body bytes.
7.  Lending. Messages that are lent are unacknowledged, but nobody has them as objects: they are known
    by number, their contents are in the store, and they cost a few bytes for each stretch of
    numbers. Each comes back exactly once, by `settle` or by `give_back`.

`tests/queues/test_backing_battery.py` holds every implementation to this list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import Message
from mirrormq.ranges.spans import Span

ANY_BYTES = 1 << 63
"""No limit on the bytes of a fetch."""

ANY_SEQUENCE = 1 << 64
"""No limit on the sequences of a fetch."""


class BackingQueue(Protocol):
    """Keeps one queue's messages. Duties: the module's text."""

    next_sequence: int
    lazy: bool
    """Keep as little as possible in memory."""

    @property
    def ready_count(self) -> int: ...
    @property
    def ready_bytes(self) -> int: ...
    @property
    def unacked_count(self) -> int: ...
    @property
    def unacked_bytes(self) -> int: ...

    def publish(self, messages: Sequence[Message]) -> None:
        """Append at the tail; sets each message's sequence (and position, if it is stored)."""

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Take up to `limit` messages from the head; they are unacknowledged now. Their bodies are not
        more than `limit_bytes` together, unless it is a single message; none only if none is ready, or
        the next one has a sequence above `up_to`."""

    def peek(self) -> Message | None:
        """The message that `fetch` would give next, left where it is."""

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Like `fetch`, but takes what has expired at the head, and only that."""

    def next_expiry(self) -> int:
        """When the head will expire, NEVER if it will not."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Fetched messages are done with."""

    def delivered(self, sequence: int) -> None:
        """Messages up to `sequence` have been with a consumer: so they say after a restart."""

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Consumers have these fetched messages, so their contents need not be in memory."""

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """The same fetched messages with their contents, less those that the disk has damaged."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """Fetched messages return to their places, marked redelivered."""

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Span]:
        """Like `fetch`, but they stay where they are and are known by number from now on. It may be
        fewer than there are; none only if none is ready or, without `single`, the next one is too large."""

    def lease_exact(self, spans: Sequence[Span]) -> list[Span]:
        """Lend exactly these, those of them that are ready; says which that were."""

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch exactly these, those of them that are ready, wherever in the queue they are."""

    def settle(self, spans: Sequence[Span]) -> int:
        """Lent messages are done with; says how many there were."""

    def return_leased(self, spans: Sequence[Span]) -> int:
        """Lent messages return to their places, marked redelivered; says how many there were."""

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """The first `limit` ready messages with numbers in [first, end) that are in memory only, left where
        they are, ascending."""

    def purge(self) -> int:
        """Drop every ready message; says how many there were."""

    def erase(self) -> None:
        """The queue is deleted: everything goes, unacknowledged messages too."""

    @property
    def damaged_count(self) -> int:
        """Stored messages that were found damaged: they are neither ready nor gone."""

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make messages ready that were damaged and have been rewritten; gives how many there were."""

    def forget_producers(self, producers: list[str]) -> None:
        """Of these nothing need be remembered any more."""

    def occupancy(self) -> MemoryUse:
        """How much of it is in memory, and how much on disk."""

    def unstored(self) -> list[Message]:
        """The ready messages that are in memory only; the journal has the others."""

    def forget_all(self) -> None:
        """This keeper is done with: it counts nothing any more, and leaves the journal as it is."""


class MirroredBacking(BackingQueue, Protocol):
    """A keeper that tells mirrors what it does, and numbers what it tells them."""

    last_number: int
    """The last operation that it has told of."""

    @property
    def behind(self) -> bool:
        """Are the mirrors so far behind that publishers must wait?"""

    def publish_from(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        """`publish`, of messages that a node has numbered."""

    delivered_by: dict[str, int]
    """Up to where clients of each node have had messages (`queues.kept_deliveries`)."""

    @property
    def has_untold(self) -> bool:
        """Has something been done that mirrors have not been told yet?"""

    def delivered_to(self, holder: str, sequence: int) -> None:
        """Clients of a node have had messages up to `sequence`."""

    def tell_gated(self, on: bool) -> None:
        """From now on, or no longer, deliveries wait for the ring."""

    def flush_operations(self) -> None:
        """Tell what is told once per turn."""

    def mark_dirty(self) -> None:
        """Have the ring looked at in this turn: somebody waits to hear how far it is."""


class QueueStore(Protocol):
    """One queue's share of the node's journal: what a BackingQueue writes to and pages from.

    Writes are buffered until the journal's flush. `load` also finds what is still buffered.
    """

    @property
    def live_count(self) -> int:
        """Messages stored and not forgotten."""

    @property
    def live_bytes(self) -> int:
        """Their body bytes."""

    @property
    def durable_count(self) -> int:
        """Of those, how many recovery would find."""

    @property
    def durable_bytes(self) -> int:
        """Their body bytes."""

    def append(self, messages: Sequence[Message], *, durable: bool) -> None:
        """Write messages; sets `position`. Not durable: paged out only, forgotten by recovery."""

    def append_one(self, message: Message) -> None:
        """Write one durable message whose number is higher than any before; sets `position`."""

    def append_contents(
        self, first: int, publish: bytes, contents: Sequence[bytes], expires_at: int, *, durable: bool
    ) -> None:
        """Write messages that share a publish payload, numbered `first`, `first + 1` …"""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Messages with a position are no longer needed."""

    def acknowledge_one(self, sequence: int) -> None:
        """A message with a position is no longer needed."""

    def forget_ranges(self, ranges: Sequence[tuple[int, int]]) -> None:
        """The same for ascending (first, count) ranges; numbers that are not stored may be among them."""

    def has(self, sequence: int) -> bool:
        """Is this message stored?"""

    def size_of(self, sequence: int) -> int:
        """The body size of a stored message."""

    def between(self, first: int, end: int, limit: int) -> list[int]:
        """The lowest `limit` stored numbers in [first, end), ascending."""

    def run_bytes(self, first: int, count: int) -> int:
        """The body bytes of what is stored of consecutive numbers."""

    def masks(self) -> Iterable[tuple[int, int]]:
        """Which numbers are stored, as (first number, bits from there on, the lowest first), at most 256
        in each and none across a multiple of 256."""

    def forget(self, sequences: Sequence[int]) -> None:
        """Like `acknowledge`, for messages that are known by sequence only (paged out)."""

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Read messages back, in the order asked for; raises DamageError for a bad record."""

    def producer_ids(self) -> dict[str, int]:
        """The highest publish id of each producer, as far as it was written down (`queues.producers`)."""

    def record_producer_id(self, highest: Mapping[str, int], mark: int) -> None:
        """Producers have come so far with the messages below `mark`: write that down with them."""

    def forget_producers(self, names: Iterable[str]) -> None:
        """Forget the highest publish ids of these producers."""

    def replace_producer_ids(self, highest: Mapping[str, int], mark: int) -> None:
        """So it is, whatever was written down before."""

    def reserve(self, next_sequence: int) -> None:
        """Numbers below this are used, also by messages that were never stored."""

    def delivered(self, sequence: int) -> None:
        """Everything up to `sequence` has been handed to a consumer at least once."""

    def erase(self) -> None:
        """Forget everything about this queue."""
