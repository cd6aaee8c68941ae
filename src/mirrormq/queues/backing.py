"""Interface between a queue and the store of its messages (RabbitMQ: `rabbit_backing_queue`).

A queue decides which consumer gets a message. A BackingQueue holds the messages themselves: in memory, on
disk, in several priorities, or on several nodes. (The backing queue of a mirrored queue wraps another one and
replicates each operation to the mirrors.) Every implementation guarantees:

1.  Order. `fetch` returns ready messages in the order of publishing (within a priority). `requeue`
    returns each message to its original position, in any order and number of calls.
2.  One owner. A message is ready, or unacknowledged (fetched), or gone. The queue returns every fetched
    message exactly once, by `acknowledge` or by `requeue`.
3.  Sequence. `publish` numbers each message: 1, 2, 3 … per queue, never reused, also not after
    a restart. The number stays with the message through requeue and restart.
4.  Memory. A backlog of any length costs a bounded amount of memory plus a few bytes a message.
    A message's `frames` are present when `fetch` returns it. They may be empty after `release_contents`,
    until `load_contents` or `requeue`.
5.  Durability. In a durable queue a persistent message is in the journal's next flush. A message that
    was acknowledged before a crash may return after it; a message that was flushed never vanishes.
6.  Counting. `ready_count`, `ready_bytes`, `unacked_count` and `unacked_bytes` are exact at any
    time; bytes are body bytes.
7.  Leases. Leased messages are unacknowledged, but exist as sequences only, not as objects. Their
    contents are in the store, and they cost a few bytes for each span of sequences. Each is returned
    exactly once, by `settle` or by `return_leased`.

`tests/queues/test_backing_battery.py` checks this list for every implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import Message
from mirrormq.sequences.spans import Span

ANY_BYTES = 1 << 63
"""Byte limit of a fetch without a limit."""

ANY_SEQUENCE = 1 << 64
"""Sequence limit of a fetch without a limit."""


class BackingQueue(Protocol):
    """Store of one queue's messages. The module docstring lists its guarantees."""

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
        """Append messages at the tail; sets each message's sequence (and position, if it is stored)."""

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Take up to `limit` messages from the head and count them as unacknowledged. Their bodies together
        have at most `limit_bytes`, except for a single larger message. The result is empty only if no message
        is ready, or if the next sequence is above `up_to`."""

    def peek(self) -> Message | None:
        """Return the message that `fetch` would return next, and leave it ready."""

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Take up to `limit` expired messages from the head, as `fetch` does; stop at the first unexpired
        one."""

    def next_expiry(self) -> int:
        """Return the time when the head expires, or NEVER."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove fetched messages for good."""

    def delivered(self, sequence: int) -> None:
        """Record that consumers have had messages up to `sequence`; after a restart these are redelivered."""

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Allow the contents of these fetched messages to leave memory, because consumers have them."""

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """Return these fetched messages with their contents, without those that are damaged on disk."""

    def requeue(self, messages: Sequence[Message]) -> None:
        """Return fetched messages to their positions, marked as redelivered."""

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Span]:
        """Lease up to `limit` messages from the head, by sequence; their contents stay in the store. The
        result may have fewer than are ready. It is empty only if no message is ready or, without `single`,
        the next one is too large."""

    def lease_exact(self, spans: Sequence[Span]) -> list[Span]:
        """Lease those of these sequences that are ready; returns them."""

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch those of these sequences that are ready, at any position of the queue."""

    def settle(self, spans: Sequence[Span]) -> int:
        """Remove leased messages for good; returns their number."""

    def return_leased(self, spans: Sequence[Span]) -> int:
        """Return leased messages to their positions, marked as redelivered; returns their number."""

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Return the first `limit` ready messages in [first, end) that are in memory only, ascending, and
        leave them ready."""

    def purge(self) -> int:
        """Drop every ready message; returns their number."""

    def erase(self) -> None:
        """Delete everything, including unacknowledged messages, because the queue is deleted."""

    @property
    def damaged_count(self) -> int:
        """Number of stored messages that are damaged. They are neither ready nor gone."""

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make damaged messages ready that have been rewritten; returns their number."""

    def forget_producers(self, producers: list[str]) -> None:
        """Forget the publish numbers of these producers."""

    def occupancy(self) -> MemoryUse:
        """Return the numbers and bytes of messages in memory and on disk."""

    def unstored(self) -> list[Message]:
        """Return the ready messages that are in memory only; the journal has the others."""

    def forget_all(self) -> None:
        """Release all memory and reset all counts, and leave the journal as it is."""


class MirroredBacking(BackingQueue, Protocol):
    """Backing queue that replicates its operations to mirrors and numbers them."""

    last_number: int
    """Number of the last operation that it sent to the ring."""

    @property
    def behind(self) -> bool:
        """Mirrors lag so far behind that publishers must wait."""

    def publish_from(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        """Append messages that node `producer` has numbered from `first_number` on."""

    delivered_by: dict[str, int]
    """Highest sequence that clients of each node have had (`queues.kept_deliveries`)."""

    @property
    def has_unsent(self) -> bool:
        """Operations exist that have not been sent to the ring."""

    def delivered_to(self, holder: str, sequence: int) -> None:
        """Record that clients of node `holder` have had messages up to `sequence`."""

    def tell_gated(self, on: bool) -> None:
        """Replicate whether deliveries wait for the ring from now on."""

    def flush_operations(self) -> None:
        """Send the operations that are collected until the end of a turn."""

    def mark_dirty(self) -> None:
        """Have the replica manager visit the ring in this turn, because a confirm waits for its progress."""


class QueueStore(Protocol):
    """One queue's share of the node's journal. A BackingQueue writes messages to it and pages them in.

    Writes are buffered until the journal's flush. `load` also finds buffered messages.
    """

    @property
    def live_count(self) -> int:
        """Number of messages that are stored and not forgotten."""

    @property
    def live_bytes(self) -> int:
        """Body bytes of the messages that are stored and not forgotten."""

    @property
    def durable_count(self) -> int:
        """Number of stored messages that recovery would find."""

    @property
    def durable_bytes(self) -> int:
        """Body bytes of the stored messages that recovery would find."""

    @property
    def now_ms(self) -> int:
        """Present time: the ingestion time of messages that are published now."""

    def append(self, messages: Sequence[Message], *, durable: bool) -> None:
        """Write messages; sets `position`. Messages that are not `durable` are paged out only: recovery
        forgets them."""

    def append_one(self, message: Message) -> None:
        """Write one durable message with a sequence above all earlier ones; sets `position`."""

    def append_contents(
        self, first: int, publishes: Sequence[bytes], contents: Sequence[bytes], expires_at: int, *,
        durable: bool, ingested_ms: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Write messages, given as publish payloads and contents, with sequences `first`, `first + 1` …
        `ingested_ms` has the ingestion time of each; if it is empty they get the present time."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove messages that have a position."""

    def acknowledge_one(self, sequence: int) -> None:
        """Remove one message that has a position."""

    def forget_ranges(self, ranges: Sequence[Span]) -> None:
        """Remove the stored messages of ascending (first, count) spans; a span may include sequences that are
        not stored."""

    def has(self, sequence: int) -> bool:
        """Return whether this message is stored."""

    def size_of(self, sequence: int) -> int:
        """Return the body size of a stored message."""

    def between(self, first: int, end: int, limit: int) -> list[int]:
        """Return the lowest `limit` stored sequences in [first, end), ascending."""

    def run_bytes(self, first: int, count: int) -> int:
        """Return the body bytes of the stored messages of one span."""

    def masks(self) -> Iterable[tuple[int, int]]:
        """Yield the stored sequences as (first sequence, bits from there on, the lowest first). A mask has at
        most 256 bits and does not cross a multiple of 256."""

    def forget(self, sequences: Sequence[int]) -> None:
        """Remove messages that are known by sequence only (paged out)."""

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Read messages back, in the order of `sequences`; raises DamageError for a bad record."""

    def producer_ids(self) -> dict[str, int]:
        """Return the highest stored publish id of each producer (`queues.publish_ids`)."""

    def record_producer_id(self, highest: Mapping[str, int], mark: int) -> None:
        """Store the highest publish id of producers together with the messages below `mark`."""

    def forget_producers(self, names: Iterable[str]) -> None:
        """Forget the highest publish ids of these producers."""

    def replace_producer_ids(self, highest: Mapping[str, int], mark: int) -> None:
        """Replace the stored highest publish id of every producer."""

    def reserve(self, next_sequence: int) -> None:
        """Record that sequences below this one are used, also by messages that were never stored."""

    def delivered(self, sequence: int) -> None:
        """Record that consumers have had every message up to `sequence`."""

    def erase(self) -> None:
        """Forget everything about this queue."""
