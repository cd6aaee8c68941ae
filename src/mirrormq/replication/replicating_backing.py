"""Replicating backing queue of a master: wraps a backing queue and sends its operations round the ring.

The queue in front does not notice the wrapper (`queues.backing`). Appends become operations at once, because
a confirm waits for their number; deliveries once per turn, all together. Removals are not urgent: a mirror
that receives one later only holds a message longer. They travel with the next urgent operation, or alone when
they have waited long enough (`flush_now`).

The wrapper may be put around a working queue, and taken off again. It must know the sequences that the queue
holds and be able to load each message, because a joining mirror needs them. The journal has most of them; the
wrapper lists the rest, messages in memory only. A message that a consumer already held when the wrapper was
put on is on that list if its content was available. If not, it is only counted, and no mirror is complete
before that message has been requeued or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirrormq.errors import DamageError
from mirrormq.queues.backing import ANY_BYTES, ANY_SEQUENCE, BackingQueue, QueueStore
from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import highest_of
from mirrormq.queues.queue_limits import DEFAULT_LIMITS, QueueLimits
from mirrormq.replication.ring_operations import (
    AppendOperation,
    DeliveredOperation,
    DeliveredTo,
    ForgetOperation,
    Gated,
    RemoveOperation,
    encode,
)
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.sequences.spans import Span, spans_of_unordered


class ReplicatingBackingQueue:
    """BackingQueue whose operations go round the ring."""

    def __init__(
        self,
        inner: BackingQueue,
        store: QueueStore,
        append: Callable[[bytes], int],
        removed: Callable[[list[Span]], None] = lambda ranges: None,
        appeared: Callable[[int], None] = lambda sequence: None,
        out: Iterable[Message] = (),
        is_behind: Callable[[], bool] = lambda: False,
        last_number: int = 0,
        limits: QueueLimits = DEFAULT_LIMITS,
        *,
        repaired: Callable[[Sequence[int]], None] = lambda sequences: None,
        on_dirty: Callable[[bool], None] = lambda urgent: None,
    ) -> None:
        self._unstored_max = limits.head_stored_messages
        self.inner = inner
        self._is_behind = is_behind
        self._on_dirty = on_dirty
        """Callback for new operations, called once until the next `flush_operations`, and once more if the
        first call was not urgent and an urgent operation follows."""
        self._store = store
        self._append = append
        self._removed, self._appeared = removed, appeared
        self._list_unstored(out)
        self._damaged: set[int] = set()
        """Sequences of messages that could not be loaded."""
        self._repaired = repaired
        """Callback for damaged messages that were rewritten."""
        self._gone: list[int] = []
        """Sequences that have left the queue since the last flush."""
        self._purged: list[Span] = []
        """Ranges that were purged since the last flush."""
        self.delivered_up_to = 0
        self._delivered_sent = 0
        self.delivered_by: dict[str, int] = {}
        """Highest sequence delivered to clients of each node, while gated (`queues.kept_deliveries`)."""
        self._holders_unsent: set[str] = set()
        self.gated = False
        """Gated state as last sent to the mirrors: deliveries wait for the ring."""
        self.trusted = False
        """Flag: this copy has every delivery mark of the last master."""
        self._silent = True
        self.urgent = False
        """Flag: an operation that should not wait is pending."""
        self.last_number = last_number
        """Number of the last operation that was sent to the ring."""

    def _list_unstored(self, out: Iterable[Message]) -> None:
        """List the messages that are in memory only when replication begins; consumers hold `out`."""
        inner, store = self.inner, self._store
        ready = inner.unstored()
        self._unstored = {message.sequence: message for message in (*ready, *out) if not message.position}
        """Messages that are not in the store; some may have been stored meanwhile."""
        stored_out = store.live_count - inner.damaged_count - (inner.ready_count - len(ready))
        self.unseen = inner.unacked_count - stored_out - (len(self._unstored) - len(ready))
        """Number of unstored messages that consumers held when replication began, and whose content is
        unavailable."""

    @property
    def behind(self) -> bool:
        """Return whether the mirrors lag so far behind that publishers must wait."""
        return self._is_behind()

    # -- replicated operations ------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> None:
        """Append messages without a producer."""
        self.publish_from(messages, "", 0)

    def publish_from(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        """Append messages that `producer` numbered; neighbours with the same lifetime share an operation."""
        self.inner.publish(messages)
        start, first = 0, messages[0]
        if len(messages) > 1:
            persistent, expires_at = first.envelope.persistent, first.expires_at
            for at, message in enumerate(messages):
                if message.expires_at != expires_at or message.envelope.persistent is not persistent:
                    self._replicate_append(messages[start:at], producer, first_number + start)
                    start = at
                    persistent, expires_at = message.envelope.persistent, message.expires_at
        self._replicate_append(messages[start:] if start else messages, producer, first_number + start)
        if not self.urgent:
            self.mark_dirty()

    def mark_dirty(self, *, urgent: bool = True) -> None:
        """Schedule a flush of the ring; in this turn if `urgent`."""
        if self._silent or (urgent and not self.urgent):
            self._silent = False
            self.urgent = urgent
            self._on_dirty(urgent)

    def flush_now(self) -> None:
        """Flush operations that are not urgent and have waited long enough."""
        if not self._silent:
            self.mark_dirty()

    def _replicate_append(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        first = messages[0]
        envelope = first.envelope
        publishes, ingested_ms = [envelope.publish], [first.ingested_ms]
        if len(messages) > 1:
            ingested_ms = [message.ingested_ms for message in messages]
            if ingested_ms.count(first.ingested_ms) == len(ingested_ms):
                del ingested_ms[1:]
            publishes = [message.envelope.publish for message in messages]
            if publishes.count(envelope.publish) == len(publishes):
                del publishes[1:]
        unstored = [message for message in messages if not message.position]
        if unstored:
            self._unstored.update((message.sequence, message) for message in unstored)
        append = AppendOperation(
            first.sequence, publishes, envelope.persistent, first.expires_at,
            [message.frames for message in messages], producer, first_number,
            {} if envelope.producer_ids is None else highest_of(messages), ingested_ms,
        )  # fmt: skip
        self.last_number = self._append(encode(append))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove acknowledged messages from the queue."""
        self.inner.acknowledge(messages)
        if self._unstored or self.unseen:
            for message in messages:
                known = self._unstored.pop(message.sequence, None)
                if known is None and not message.position:
                    self.unseen -= 1
        self._gone += [message.sequence for message in messages]
        self.mark_dirty(urgent=False)

    def delivered(self, sequence: int) -> None:
        """Record that consumers have had messages up to `sequence`."""
        self.inner.delivered(sequence)
        self.delivered_up_to = max(self.delivered_up_to, sequence)
        self.mark_dirty()

    def delivered_to(self, holder: str, sequence: int) -> None:
        """Record that clients of a node have had messages up to `sequence`."""
        if sequence > self.delivered_by.get(holder, 0):
            self.delivered_by[holder] = sequence
            self._holders_unsent.add(holder)
            self.mark_dirty()

    def tell_gated(self, on: bool) -> None:
        """Notify the mirrors that deliveries wait for the ring, or no longer do. Holders of earlier
        deliveries are unknown."""
        if on and not self.gated and self.delivered_up_to:
            self.delivered_to("", self.delivered_up_to)
        self.gated = on
        self.last_number = self._append(encode(Gated(on)))
        self.mark_dirty()

    @property
    def has_unsent(self) -> bool:
        """Return whether operations are pending that the mirrors have not received."""
        return bool(self._gone or self._purged or self._holders_unsent)

    def purge(self) -> int:
        """Drop every ready message."""
        before = self.held()
        self._tidy()
        for message in self.inner.unstored():
            self._unstored.pop(message.sequence, None)
        count = self.inner.purge()
        before.subtract(self.held())
        self._purged += before.spans()
        self.mark_dirty()
        return count

    @property
    def damaged_count(self) -> int:
        """Number of stored messages that were found damaged."""
        return self.inner.damaged_count

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make damaged messages ready again that were rewritten, and send them to mirrors that lack them."""
        self._damaged.difference_update(sequences)
        self._repaired(sequences)
        return self.inner.readmit(sequences)

    def damaged(self, sequences: Sequence[int]) -> list[int]:
        """Return the messages that could not be loaded because the disk has damaged them."""
        return [number for number in sequences if number in self._damaged]

    def settle(self, spans: Sequence[Span]) -> int:
        """Remove leased messages. Mirrors are notified at once, because a client waits until every mirror has
        removed them."""
        self._tidy()
        count = self.inner.settle(spans)
        self._purged += spans
        self.flush_operations()
        self.mark_dirty()
        return count

    def forget_producers(self, producers: list[str]) -> None:
        """Forget the publish ids of these producers."""
        self.inner.forget_producers(producers)
        self._append(encode(ForgetOperation(producers)))
        self.mark_dirty()

    def flush_operations(self) -> None:
        """Send the operations that were not sent at once."""
        self._silent, self.urgent = True, False
        if self.delivered_up_to > self._delivered_sent:
            self._delivered_sent = self.delivered_up_to
            if not self.gated:
                self.last_number = self._append(encode(DeliveredOperation(self.delivered_up_to)))
        for holder in sorted(self._holders_unsent):
            self.last_number = self._append(encode(DeliveredTo(holder, self.delivered_by[holder])))
        self._holders_unsent.clear()
        if self._gone or self._purged:
            ranges = spans_of_unordered(self._gone)
            if self._purged:
                ranges = SequenceSet([*ranges, *self._purged]).spans()
            self._gone, self._purged = [], []
            self.last_number = self._append(encode(RemoveOperation(ranges)))
            self._removed(ranges)

    # -- delegation to the wrapped queue --------------------------------------------------------

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Fetch messages from the head."""
        return self.inner.fetch(limit, limit_bytes, up_to)

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch exactly these messages. Mirrors are not notified: for them the messages never left."""
        return self.inner.reclaim(spans)

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Release contents that the journal has from memory."""
        self.inner.release_contents(messages)

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with their contents loaded."""
        return self.inner.load_contents(messages)

    def peek(self) -> Message | None:
        """Return the next message."""
        return self.inner.peek()

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Take expired messages."""
        return self.inner.take_expired(now_ms, limit)

    def next_expiry(self) -> int:
        """Return the time at which the head expires."""
        return self.inner.next_expiry()

    def requeue(self, messages: Sequence[Message]) -> None:
        """Return messages to their places. Mirrors are not notified: for them the messages never left."""
        if self.unseen:
            for message in messages:
                if not message.position and message.sequence not in self._unstored:
                    self._unstored[message.sequence] = message
                    self.unseen -= 1
                    self._appeared(message.sequence)
        self.inner.requeue(messages)
        if len(self._unstored) > self._unstored_max:
            self._tidy()

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Span]:
        """Lease messages from the head. Mirrors are not notified: for them the messages never left."""
        return self.inner.lease_out(limit, limit_bytes, single=single)

    def lease_exact(self, spans: Sequence[Span]) -> list[Span]:
        """Lease exactly these messages."""
        return self.inner.lease_exact(spans)

    def return_leased(self, spans: Sequence[Span]) -> int:
        """Return leased messages to their places."""
        return self.inner.return_leased(spans)

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Return ready messages that are in memory only."""
        return self.inner.peek_unstored(first, end, limit)

    def _tidy(self) -> None:
        """Drop messages from the memory list that have been stored meanwhile."""
        unstored = self._unstored.items()
        self._unstored = {number: message for number, message in unstored if not message.position}

    def erase(self) -> None:
        """Erase the deleted queue. Mirrors learn of it from the metadata."""
        self.inner.erase()

    def unstored(self) -> list[Message]:
        """Return ready messages that are in memory only."""
        return self.inner.unstored()

    def forget_all(self) -> None:
        """Forget all messages: another node is the queue's master now."""
        self.inner.forget_all()

    @property
    def next_sequence(self) -> int:
        """Sequence of the next message."""
        return self.inner.next_sequence

    @next_sequence.setter
    def next_sequence(self, number: int) -> None:
        self.inner.next_sequence = number

    @property
    def lazy(self) -> bool:
        """Lazy mode: keep as little as possible in memory."""
        return self.inner.lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self.inner.lazy = lazy

    @property
    def ready_count(self) -> int:
        """Number of messages ready for delivery."""
        return self.inner.ready_count

    @property
    def ready_bytes(self) -> int:
        """Body bytes of the ready messages."""
        return self.inner.ready_bytes

    @property
    def unacked_count(self) -> int:
        """Number of messages that consumers hold."""
        return self.inner.unacked_count

    @property
    def unacked_bytes(self) -> int:
        """Body bytes of the messages that consumers hold."""
        return self.inner.unacked_bytes

    def occupancy(self) -> MemoryUse:
        """Return the memory and disk use of the messages on this node."""
        return self.inner.occupancy()

    # -- synchronisation ------------------------------------------------------------------------

    def held(self) -> SequenceSet:
        """Return every known sequence in the queue, ready or not."""
        found = SequenceSet()
        for first, mask in self._store.masks():
            found.add_mask(first, mask)
        for number in self._unstored:
            found.add(number)
        return found

    def in_memory(self) -> list[Message]:
        """Return the messages that are not in the store, ready or not."""
        return [message for message in self._unstored.values() if not message.position]

    def sizes(self, sequences: Sequence[int]) -> list[int]:
        """Return body sizes by sequence."""
        unstored, size_of = self._unstored, self._store.size_of
        return [unstored[number].body_size if number in unstored else size_of(number) for number in sequences]

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Return messages by sequence, from memory or store, without those that the disk has damaged."""
        unstored = self._unstored
        stored = [n for n in sequences if n not in unstored or unstored[n].position]
        try:
            found = self._store.load(stored)
        except DamageError as damage:
            lost = set(damage.sequences)
            self._damaged |= lost
            found = self._store.load([number for number in stored if number not in lost])
        by_number = {message.sequence: message for message in found}
        loaded = [by_number.get(number) or unstored.get(number) for number in sequences]
        return [message for message in loaded if message is not None and message.frames]
