"""Where the messages of a range come from: the journal, and what is in memory only.

A master and a mirror keep their messages in the same two places, so both are read alike, a slice at a time.
What consumers hold is in the range too, because it is in the queue; only what they hold of a queue that is
neither mirrored nor on disk cannot be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mirrormq.errors import DamageError
from mirrormq.queues.message import Envelope as MessageEnvelope
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.ranges.batch import Envelope, encode
from mirrormq.ranges.stretches import Stretch, below, common
from mirrormq.replication.mirror import MirrorCopy
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.wire.content import FRAME_OVERHEAD_BYTES, PROPERTIES_AT, body_of

ONE_BODY_FRAME = PROPERTIES_AT + 1 + FRAME_OVERHEAD_BYTES
"""What content frames have beside properties and body if the body is in one frame, as it mostly is."""


class Source(NamedTuple):
    """One copy of a queue."""

    store: JournalQueue
    glance: Callable[[int, int, int], list[Message]]
    """Messages in memory only: from, up to, how many."""
    delivered_up_to: Callable[[], int]
    alive: Callable[[], bool]
    """Is the copy still what it was?"""


def master_source(queue: Queue, store: JournalQueue) -> Source:
    """The copy of a queue whose master this node is."""

    def glance(first: int, end: int, limit: int) -> list[Message]:
        return queue.backing.glance(first, end, limit)  # by whoever keeps them then

    return Source(
        store,
        glance,
        lambda: max(queue.delivered_up_to, store.delivered_up_to),
        lambda: not queue.deleted and not store.erased,
    )


def mirror_source(copy: MirrorCopy, store: JournalQueue, alive: Callable[[], bool]) -> Source:
    """A mirror's copy."""
    return Source(store, copy.glance, lambda: copy.delivered_up_to, lambda: not store.erased and alive())


class Slice(NamedTuple):
    """Some messages, and where to go on."""

    messages: list[Message]
    next: int


def read_slice(source: Source, wanted: Sequence[Stretch], rows: int, size_bytes: int) -> Slice:
    """The first messages with numbers in `wanted`; a single one may be larger than `size_bytes`."""
    first, end = wanted[0][0], sum(wanted[-1])
    numbers: list[int] = []
    memory: dict[int, Message] = {}
    reached = end
    for start, count in wanted:
        stored = source.store.between(start, start + count, rows - len(numbers))
        unstored = source.glance(start, start + count, rows - len(numbers))
        numbers += stored
        if unstored:
            memory |= {message.sequence: message for message in unstored}
            numbers = sorted([*numbers, *(message.sequence for message in unstored)])
        if len(numbers) >= rows:
            reached = numbers[rows - 1] + 1
            del numbers[rows:]
            break
    if not memory and _fit(source, numbers, size_bytes):
        return Slice(_load(source, numbers, memory), max(reached, first))
    kept, total_bytes = 0, 0
    for number in numbers:
        size = memory[number].body_size if number in memory else source.store.size_of(number)
        if kept and total_bytes + size > size_bytes:
            reached = number
            break
        kept += 1
        total_bytes += size
    return Slice(_load(source, numbers[:kept], memory), max(reached, first))


def _fit(source: Source, numbers: list[int], size_bytes: int) -> bool:
    """Is all that is stored from the first to the last of these not too much? Then neither are they."""
    if not numbers:
        return True
    return source.store.run_bytes(numbers[0], numbers[-1] - numbers[0] + 1) <= size_bytes


def _load(source: Source, numbers: list[int], memory: dict[int, Message]) -> list[Message]:
    stored = [number for number in numbers if number not in memory] if memory else numbers
    try:
        found = source.store.load(stored)
    except DamageError as damage:
        lost = set(damage.sequences)
        found = source.store.load([number for number in stored if number not in lost])
    if not memory:
        return found
    both = [*found, *(memory[number] for number in numbers if number in memory)]
    return sorted(both, key=lambda message: message.sequence)


class Columns:
    """Messages on their way into a batch: everything by column, nothing by row."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self._indexes: list[int] = []
        self._redelivered: list[bool] = []
        self._bodies: list[bytes] = []
        self._envelopes = _Envelopes()
        self.size_bytes = 0

    def add(self, messages: Sequence[Message], delivered_up_to: int) -> None:
        """Add messages behind those that are there."""
        self.sequences += [message.sequence for message in messages]
        self._indexes += map(self._envelopes.__getitem__, [message.envelope for message in messages])
        self._redelivered += [m.redelivered or m.sequence <= delivered_up_to for m in messages]
        self._bodies += [
            m.frames[-m.body_size - 1 : -1]
            if m.body_size and len(m.frames) - m.body_size == len(m.envelope.properties) + ONE_BODY_FRAME
            else body_of(m.frames)
            for m in messages
        ]
        self.size_bytes += sum([message.body_size for message in messages])

    def encode(self) -> bytes:
        """As a batch."""
        distinct = list(self._envelopes.distinct)
        return encode(distinct, self.sequences, self._indexes, bytes(self._redelivered), self._bodies)


class _Envelopes(dict[MessageEnvelope, int]):
    """The number of each envelope; equal ones have the same, and messages mostly share the object."""

    def __init__(self) -> None:
        super().__init__()
        self.distinct: dict[Envelope, int] = {}

    def __missing__(self, envelope: MessageEnvelope) -> int:
        exchange = envelope.exchange.encode("utf-8", "surrogateescape")
        key = envelope.routing_key.encode("utf-8", "surrogateescape")
        plain = Envelope(exchange, key, envelope.properties)
        number = self[envelope] = self.distinct.setdefault(plain, len(self.distinct))
        return number


def within(wanted: Sequence[Stretch] | None, first: int, end: int) -> list[Stretch]:
    """The stretches that are asked for, of [first, end)."""
    if first >= end:
        return []
    if wanted is None:
        return [(first, end - first)]
    return common(below(wanted, end), [(first, end - first)])
