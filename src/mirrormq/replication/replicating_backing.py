"""The master's keeper of messages: an ordinary one, wrapped, that tells the ring what it does.

The queue in front of it notices nothing (`queues.backing`). Appends are told as they happen, because a
confirm waits for their number; deliveries once per turn, all together. Removals press nobody: a mirror that
hears of one a little later holds a message a little longer. They go along with the next thing there is to
tell, or by themselves when they have waited long enough (`flush_now`).

The wrapper may be put around a queue that is at work, and taken off again. It must be able to say what the
queue holds, and to show each message, because a mirror that joins must be told. The journal knows most of
it; for the rest, messages in memory only, the wrapper keeps a list. A message that was with a consumer
already when the wrapper was put on is on that list if somebody could show it. If not, it is only
counted, and no mirror is complete before it has come back or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirrormq import limits
from mirrormq.errors import DamageError
from mirrormq.queues.backing import ANY_BYTES, ANY_SEQUENCE, BackingQueue, QueueStore
from mirrormq.queues.memory_use import MemoryUse
from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import highest_of
from mirrormq.replication.ring_operations import (
    AppendOperation,
    DeliveredOperation,
    DeliveredTo,
    ForgetOperation,
    Gated,
    RemoveOperation,
    encode,
)
from mirrormq.replication.sequence_set import Range, SequenceSet, ranges_of


class ReplicatingBackingQueue:
    """A BackingQueue whose operations go round the ring."""

    def __init__(
        self,
        inner: BackingQueue,
        store: QueueStore,
        tell: Callable[[bytes], int],
        removed: Callable[[list[Range]], None] = lambda ranges: None,
        appeared: Callable[[int], None] = lambda sequence: None,
        out: Iterable[Message] = (),
        is_behind: Callable[[], bool] = lambda: False,
        last_number: int = 0,
    ) -> None:
        self.inner = inner
        self._is_behind = is_behind
        self._store = store
        self._tell = tell
        self._removed = removed
        self._appeared = appeared
        ready = inner.unstored()
        self._unstored = {message.sequence: message for message in (*ready, *out) if not message.position}
        """Messages that the store does not have; some may have been stored meanwhile."""
        stored_out = store.live_count - inner.damaged_count - (inner.ready_count - len(ready))
        self.unseen = inner.unacked_count - stored_out - (len(self._unstored) - len(ready))
        """Messages in memory that were with consumers when this began, and that nobody could show."""
        self._damaged: set[int] = set()
        """Messages that could not be loaded."""
        self.repaired: Callable[[Sequence[int]], None] = lambda sequences: None
        """Told of damaged messages that were rewritten."""
        self._gone: list[int] = []
        """What has left the queue in this turn …"""
        self._purged: list[Range] = []
        """… and what was purged."""
        self.delivered_up_to = 0
        self._delivered_told = 0
        self.delivered_by: dict[str, int] = {}
        """While gated: up to where clients of each node have had messages (`queues.kept_deliveries`)."""
        self._holders_untold: set[str] = set()
        self.gated = False
        """Do deliveries wait for the ring, as far as the mirrors know?"""
        self.trusted = False
        """Is everything here that was delivered by the last master?"""
        self.on_dirty: Callable[[bool], None] = lambda urgent: None
        """Called when there is something new to tell, once until the next `flush_operations`; and once more
        if that was nothing pressing, and now there is something that is."""
        self._silent = True
        self.urgent = False
        """Is there something to tell that should not wait?"""
        self.last_number = last_number
        """The last operation that it has told of."""

    @property
    def behind(self) -> bool:
        """Are the mirrors so far behind that publishers must wait?"""
        return self._is_behind()

    # -- what it tells --------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message]) -> None:
        """Append messages that nobody will ask for again."""
        self.publish_from(messages, "", 0)

    def publish_from(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        """Append messages that `producer` numbered; what shares a publish payload travels together."""
        self.inner.publish(messages)
        start, first = 0, messages[0]
        for at, message in enumerate(messages):
            if message.envelope is not first.envelope and not _alike(message, first):
                self._tell_append(messages[start:at], producer, first_number + start)
                start, first = at, message
        self._tell_append(messages[start:] if start else messages, producer, first_number + start)
        self.mark_dirty()

    def mark_dirty(self, *, urgent: bool = True) -> None:
        """Have the ring looked at: in this turn, if it presses."""
        if self._silent or (urgent and not self.urgent):
            self._silent = False
            self.urgent = urgent
            self.on_dirty(urgent)

    def flush_now(self) -> None:
        """What did not press has waited long enough."""
        if not self._silent:
            self.mark_dirty()

    def _tell_append(self, messages: Sequence[Message], producer: str, first_number: int) -> None:
        first = messages[0]
        unstored = [message for message in messages if not message.position]
        if unstored:
            self._unstored.update((message.sequence, message) for message in unstored)
        append = AppendOperation(
            first.sequence, first.envelope.publish, first.envelope.persistent, first.expires_at,
            [message.frames for message in messages], producer, first_number,
            {} if first.envelope.producer_ids is None else highest_of(messages),
        )  # fmt: skip
        self.last_number = self._tell(encode(append))

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Messages leave the queue."""
        self.inner.acknowledge(messages)
        if self._unstored or self.unseen:
            for message in messages:
                known = self._unstored.pop(message.sequence, None)
                if known is None and not message.position:
                    self.unseen -= 1
        self._gone += [message.sequence for message in messages]
        self.mark_dirty(urgent=False)

    def delivered(self, sequence: int) -> None:
        """Messages have been with a consumer."""
        self.inner.delivered(sequence)
        self.delivered_up_to = max(self.delivered_up_to, sequence)
        self.mark_dirty()

    def delivered_to(self, holder: str, sequence: int) -> None:
        """Messages have been with clients of a node."""
        if sequence > self.delivered_by.get(holder, 0):
            self.delivered_by[holder] = sequence
            self._holders_untold.add(holder)
            self.mark_dirty()

    def tell_gated(self, on: bool) -> None:
        """From now on, or no longer, deliveries wait for the ring. Holders of what was delivered before are
        not known."""
        if on and not self.gated and self.delivered_up_to:
            self.delivered_to("", self.delivered_up_to)
        self.gated = on
        self.last_number = self._tell(encode(Gated(on)))
        self.mark_dirty()

    @property
    def has_untold(self) -> bool:
        """Has something been done that mirrors have not been told yet?"""
        return bool(self._gone or self._purged or self._holders_untold)

    def purge(self) -> int:
        """Drop every ready message."""
        before = self.held()
        self._tidy()
        for message in self.inner.unstored():
            self._unstored.pop(message.sequence, None)
        count = self.inner.purge()
        before.subtract(self.held())
        self._purged += before.ranges()
        self.mark_dirty()
        return count

    @property
    def damaged_count(self) -> int:
        """Stored messages that were found damaged."""
        return self.inner.damaged_count

    def readmit(self, sequences: Sequence[int]) -> int:
        """Make messages ready that were damaged and have been rewritten; mirrors that lack them get them."""
        self._damaged.difference_update(sequences)
        self.repaired(sequences)
        return self.inner.readmit(sequences)

    def damaged(self, sequences: Sequence[int]) -> list[int]:
        """Messages that could not be loaded because the disk has damaged them."""
        return [number for number in sequences if number in self._damaged]

    def settle(self, spans: Sequence[Range]) -> int:
        """Lent messages leave the queue. That is told at once: somebody waits until it is true everywhere."""
        self._tidy()
        count = self.inner.settle(spans)
        self._purged += spans
        self.flush_operations()
        self.mark_dirty()
        return count

    def forget_producers(self, producers: list[str]) -> None:
        """Of these nothing need be remembered any more."""
        self.inner.forget_producers(producers)
        self._tell(encode(ForgetOperation(producers)))
        self.mark_dirty()

    def flush_operations(self) -> None:
        """Tell what was not told as it happened."""
        self._silent, self.urgent = True, False
        if self.delivered_up_to > self._delivered_told:
            self._delivered_told = self.delivered_up_to
            if not self.gated:
                self.last_number = self._tell(encode(DeliveredOperation(self.delivered_up_to)))
        for holder in sorted(self._holders_untold):
            self.last_number = self._tell(encode(DeliveredTo(holder, self.delivered_by[holder])))
        self._holders_untold.clear()
        if self._gone or self._purged:
            self._gone.sort()
            ranges = ranges_of(self._gone)
            if self._purged:
                ranges = SequenceSet([*ranges, *self._purged]).ranges()
            self._gone, self._purged = [], []
            self.last_number = self._tell(encode(RemoveOperation(ranges)))
            self._removed(ranges)

    # -- what it passes on ----------------------------------------------------------------------

    def fetch(self, limit: int, limit_bytes: int = ANY_BYTES, up_to: int = ANY_SEQUENCE) -> list[Message]:
        """Take from the head."""
        return self.inner.fetch(limit, limit_bytes, up_to)

    def reclaim(self, spans: Sequence[Range]) -> list[Message]:
        """Fetch exactly these: to a mirror they never left."""
        return self.inner.reclaim(spans)

    def release_contents(self, messages: Sequence[Message]) -> None:
        """Contents that the journal has may leave memory."""
        self.inner.release_contents(messages)

    def load_contents(self, messages: Sequence[Message]) -> list[Message]:
        """The same messages with their contents."""
        return self.inner.load_contents(messages)

    def peek(self) -> Message | None:
        """The next message."""
        return self.inner.peek()

    def take_expired(self, now_ms: int, limit: int) -> list[Message]:
        """Take what has expired."""
        return self.inner.take_expired(now_ms, limit)

    def next_expiry(self) -> int:
        """When the head will expire."""
        return self.inner.next_expiry()

    def requeue(self, messages: Sequence[Message]) -> None:
        """Back to their places: to a mirror they never left."""
        if self.unseen:
            for message in messages:
                if not message.position and message.sequence not in self._unstored:
                    self._unstored[message.sequence] = message
                    self.unseen -= 1
                    self._appeared(message.sequence)
        self.inner.requeue(messages)
        if len(self._unstored) > limits.HEAD_STORED_MESSAGES:
            self._tidy()

    def lease_out(self, limit: int, limit_bytes: int = ANY_BYTES, *, single: bool = True) -> list[Range]:
        """Lend from the head: to a mirror they never left."""
        return self.inner.lease_out(limit, limit_bytes, single=single)

    def lease_exact(self, spans: Sequence[Range]) -> list[Range]:
        """Lend exactly these."""
        return self.inner.lease_exact(spans)

    def return_leased(self, spans: Sequence[Range]) -> int:
        """Back to their places."""
        return self.inner.return_leased(spans)

    def peek_unstored(self, first: int, end: int, limit: int) -> list[Message]:
        """Ready messages that are in memory only."""
        return self.inner.peek_unstored(first, end, limit)

    def _tidy(self) -> None:
        """Let go of messages that have been stored meanwhile."""
        unstored = self._unstored.items()
        self._unstored = {number: message for number, message in unstored if not message.position}

    def erase(self) -> None:
        """The queue is deleted; the metadata tells the mirrors."""
        self.inner.erase()

    def unstored(self) -> list[Message]:
        """Ready messages that are in memory only."""
        return self.inner.unstored()

    def forget_all(self) -> None:
        """Another node is the queue's master now."""
        self.inner.forget_all()

    @property
    def next_sequence(self) -> int:
        """The number of the next message."""
        return self.inner.next_sequence

    @next_sequence.setter
    def next_sequence(self, number: int) -> None:
        self.inner.next_sequence = number

    @property
    def lazy(self) -> bool:
        """Keep as little as possible in memory."""
        return self.inner.lazy

    @lazy.setter
    def lazy(self, lazy: bool) -> None:
        self.inner.lazy = lazy

    @property
    def ready_count(self) -> int:
        """Messages ready for delivery."""
        return self.inner.ready_count

    @property
    def ready_bytes(self) -> int:
        """Their body bytes."""
        return self.inner.ready_bytes

    @property
    def unacked_count(self) -> int:
        """Messages out with consumers."""
        return self.inner.unacked_count

    @property
    def unacked_bytes(self) -> int:
        """Their body bytes."""
        return self.inner.unacked_bytes

    def occupancy(self) -> MemoryUse:
        """Where its messages are on this node."""
        return self.inner.occupancy()

    # -- for synchronisation --------------------------------------------------------------------

    def held(self) -> SequenceSet:
        """Every sequence in the queue, ready or not, as far as it is known."""
        found = SequenceSet()
        for first, mask in self._store.masks():
            found.add_mask(first, mask)
        for number in self._unstored:
            found.add(number)
        return found

    def in_memory(self) -> list[Message]:
        """The messages that the store does not have, ready or not."""
        return [message for message in self._unstored.values() if not message.position]

    def sizes(self, sequences: Sequence[int]) -> list[int]:
        """Body sizes, by number."""
        unstored, size_of = self._unstored, self._store.size_of
        return [unstored[number].body_size if number in unstored else size_of(number) for number in sequences]

    def load(self, sequences: Sequence[int]) -> list[Message]:
        """Messages by number, wherever they are, less those that the disk has damaged."""
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


def _alike(one: Message, other: Message) -> bool:
    """Can they travel together?"""
    return (
        one.envelope.publish == other.envelope.publish
        and one.envelope.persistent == other.envelope.persistent
        and one.expires_at == other.expires_at
    )
