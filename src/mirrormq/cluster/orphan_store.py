"""Orphan store: messages that only the losing side of a healed partition has.

Publishers sent them to the losing side during the partition, and no consumer acknowledged them there. The
winner's metadata and queues replace the loser's. The losing node therefore *sets aside* these messages first:
it writes them to the journal under a separate queue id, syncs, and only then drops them from their queue.
Stored orphans survive crashes of the node, and the node may rejoin the winner's side at once.

    ha-orphans: restore     (default) they are published to the healed queue, marked x-orphaned-from: <node>
    ha-orphans: keep        they stay, to be listed, exported, restored or deleted

A message leaves the store when the healed queue has confirmed it. If this node crashes between publish and
confirm, the message is published twice. A duplicate carries the header; a lost message could not be restored.
A queue that was declared on the losing side is declared again for its orphans. If the winning side has
deleted a queue, its orphans stay in the store.

Each set of orphans is a *batch*: of one queue, from one heal. Its title is in a small log; its messages are
an ordinary queue of the journal, which recovers them after a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from mirrormq.metadata.records import Queue
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_limits import RESERVED_IDS_FROM
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.wire.content import with_properties
from mirrormq.wire.fields import Field
from mirrormq.wire.properties import decode_properties, encode_properties

ORPHANED_FROM = "x-orphaned-from"

BATCH_MESSAGES = 256
"""Messages read at once when orphans are restored, listed or exported."""

BATCH_BYTES = 1 << 20
"""Approximate body bytes handled at once: a few milliseconds of the loop."""


class OrphanTitle(msgspec.Struct, frozen=True, array_like=True, tag="title"):
    """Title of a batch."""

    number: int
    node: str
    """Node that set the batch aside."""
    at_ms: int
    queue: Queue
    """Queue record on the losing side."""
    created_in_partition: bool
    """Flag: the queue was declared on the losing side, and the winners do not know it."""


class OrphansGone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """End of a batch: it has no messages left."""

    number: int


_entries: msgspec.msgpack.Decoder[OrphanTitle | OrphansGone] = msgspec.msgpack.Decoder(
    OrphanTitle | OrphansGone
)


class OrphanStore:
    """Orphans of one node."""

    def __init__(self, journal: Journal, log: EntryLog, batch_messages: int = BATCH_MESSAGES) -> None:
        self._batch_messages = batch_messages
        self._journal = journal
        self._log = log
        self.titles: dict[int, OrphanTitle] = {}
        """Titles by number, oldest first."""
        self._known: dict[int, deque[int]] = {}
        """Sequences of batches that are being read; some may have been settled meanwhile."""

    def open(self) -> None:
        """Read the stored batches. A title is written before its messages and may be deleted before them. A
        title without messages, or messages without a title, are left from an interrupted operation: delete
        them."""
        for data in self._log.open():
            entry = _entries.decode(data)
            if isinstance(entry, OrphanTitle):
                self.titles[entry.number] = entry
            else:
                self.titles.pop(entry.number, None)
        for queue_id in [found for found in self._journal.queues if found >= RESERVED_IDS_FROM]:
            if queue_id - RESERVED_IDS_FROM not in self.titles:
                self._journal.queue(queue_id).erase()
        for number in list(self.titles):
            if not self.count(number):
                self.delete(number)

    def count(self, number: int) -> int:
        """Return the number of messages in a batch."""
        return self._store(number).live_count

    def size_bytes(self, number: int) -> int:
        """Return the body bytes of a batch."""
        return self._store(number).live_bytes

    # -- input ----------------------------------------------------------------------------------

    def set_aside(
        self, queue: Queue, node: str, at_ms: int, created_in_partition: bool, messages: Iterable[Message]
    ) -> int:
        """Store messages of a queue and return their number. They are on disk when this returns."""
        number = max(self.titles, default=0) + 1
        store = self._store(number)
        kept = 0
        for some in _in_pieces(messages, self._batch_messages):
            if not kept:
                title = self.titles[number] = OrphanTitle(number, node, at_ms, queue, created_in_partition)
                self._log.append(msgspec.msgpack.encode(title), sync=True)
            store.append([_copy(message) for message in some], durable=True)
            self._journal.flush(sync=True)
            kept += len(some)
        return kept

    # -- output ---------------------------------------------------------------------------------

    def read(self, number: int, after: int = 0, limit: int = BATCH_MESSAGES) -> list[Message]:
        """Return the next messages of a batch behind a sequence, oldest first, without damaged ones."""
        store = self._store(number)
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = deque(store.recovered())
        while known and not store.has(known[0]):
            known.popleft()
        behind = (sequence for sequence in known if sequence > after and store.has(sequence))
        return store.load_intact(list(islice(behind, limit)))

    def settled(self, number: int, sequences: Sequence[int]) -> None:
        """Remove messages that are republished or not wanted; with the last one the batch ends."""
        self._store(number).forget(sequences)
        if not self.count(number):
            self.delete(number)

    def delete(self, number: int) -> None:
        """Delete a batch."""
        self._journal.queue(RESERVED_IDS_FROM + number).erase()
        self._known.pop(number, None)
        if self.titles.pop(number, None) is not None:
            self._log.append(msgspec.msgpack.encode(OrphansGone(number)), sync=False)
            if not self.titles:
                self._log.replace([])

    def _store(self, number: int) -> JournalQueue:
        return self._journal.queue(RESERVED_IDS_FROM + number)


def marked(message: Message, node: str) -> Message:
    """Return an orphan for republishing: the same message with the header `x-orphaned-from`."""
    properties = decode_properties(message.properties, 0)
    headers = {**(properties.headers or {}), ORPHANED_FROM: Field("S", node.encode())}
    payload = encode_properties(properties._replace(headers=headers))
    envelope = make_envelope(message.envelope.publish, payload)
    return Message(envelope, with_properties(message.frames, payload))


def _copy(message: Message) -> Message:
    """Copy a message for another store: a message object belongs to one store."""
    copy = Message(message.envelope, message.frames, message.expires_at, message.body_size)
    copy.sequence = message.sequence
    return copy


def _in_pieces(messages: Iterable[Message], count: int) -> Iterator[list[Message]]:
    piece: list[Message] = []
    size = 0
    for message in messages:
        piece.append(message)
        size += message.body_size
        if len(piece) >= count or size >= BATCH_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
