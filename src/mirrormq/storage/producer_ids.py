"""Highest publish ids per queue and producer, stored in the journal together with the messages.

A publisher without a confirm publishes again, perhaps after a restart of the node. Therefore the highest
publish id of each producer must be known as soon as the message is on disk. It is stored as a message, one
for each queue and producer, in a queue that is hidden from clients. Writing it again replaces the last one,
and segments, compaction and the shutdown index handle it like any message.

A crash may leave any part of one flush. A record without its messages would be the worst case: the queue
would reject the messages as duplicates and never store them. Therefore a record is written with the flush
after that of its messages, ahead of their acknowledgements. It contains the sequence up to which it is valid
(`mark`). Recovery reads the publish ids of messages beyond that mark from their headers. The first record of
a queue is written ahead of its messages, so that recovery knows which queues to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from mirrormq.errors import DamageError
from mirrormq.queues.publish_ids import publish_ids_in
from mirrormq.storage.journal_limits import PRODUCERS_ID
from mirrormq.wire.content import body_of, build_frames
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

if TYPE_CHECKING:
    from mirrormq.queues.message import Message
    from mirrormq.storage.journal import Journal
    from mirrormq.storage.queue_store import JournalQueue

READ_AT_ONCE = 1024
EVERY_SEQUENCE = 1 << 63
NO_PRODUCER = ""
"""Producer of a queue's first record, which only registers the queue."""


class ProducerEntry(msgspec.Struct, frozen=True, array_like=True):
    """Highest publish id of one producer in one queue."""

    queue_id: int
    producer: str
    highest: int
    mark: int
    """Sequence below which all messages of the queue are counted."""


_decoder = msgspec.msgpack.Decoder(ProducerEntry)
_PUBLISH = encode_basic_publish("", "")
_PROPERTIES = encode_properties(BasicProperties())


class ProducerIds:
    """Publish ids of all queues of a node."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[int, dict[str, int]] = {}
        self._marks: dict[int, int] = {}
        self._places: dict[tuple[int, str], int] = {}
        """Sequence of the last record by queue and producer."""
        self._dirty: dict[tuple[int, str], None] = {}
        """Entries that have changed since the last flush."""
        self._due: dict[tuple[int, str], ProducerEntry] = {}
        """Entries that changed before the last flush: they may be written now."""

    def of_queue(self, queue_id: int) -> Mapping[str, int]:
        """Return the highest publish id of each producer of a queue."""
        return {name: number for name, number in self._known.get(queue_id, {}).items() if name != NO_PRODUCER}

    # -- updates --------------------------------------------------------------------------------

    def raise_to(self, queue_id: int, highest: Mapping[str, int], mark: int) -> None:
        """Raise the highest publish ids of producers."""
        known = self._known.get(queue_id)
        if known is None:
            known = self._known[queue_id] = {NO_PRODUCER: 0}
            self._marks[queue_id] = 0
            self._write({(queue_id, NO_PRODUCER): ProducerEntry(queue_id, NO_PRODUCER, 0, 0)})
        for name, number in highest.items():
            if number > known.get(name, -1):
                known[name] = number
                self._dirty[queue_id, name] = None
        self._marks[queue_id] = max(self._marks[queue_id], mark)

    def replace(self, queue_id: int, highest: Mapping[str, int], mark: int) -> None:
        """Replace the highest publish ids of all producers of a queue."""
        for name in [name for name in self.of_queue(queue_id) if name not in highest]:
            self._drop(queue_id, name)
        known = self._known.get(queue_id, {})
        for name in highest:
            known.pop(name, None)
            self._due.pop((queue_id, name), None)
        if highest:
            self.raise_to(queue_id, highest, mark)

    def forget_producers(self, queue_id: int, names: Iterable[str]) -> None:
        """Remove producers of a queue."""
        known = self._known.get(queue_id, {})
        for name in names:
            if name in known:
                self._drop(queue_id, name)

    def forget(self, queue_id: int) -> None:
        """Remove a deleted queue."""
        for name in list(self._known.get(queue_id, ())):
            self._drop(queue_id, name)
        self._known.pop(queue_id, None)
        self._marks.pop(queue_id, None)

    def forget_unknown(self, known_ids: Collection[int]) -> None:
        """Remove all queues except these."""
        for queue_id in [found for found in self._known if found not in known_ids]:
            self.forget(queue_id)

    def _drop(self, queue_id: int, name: str) -> None:
        self._known[queue_id].pop(name, None)
        self._dirty.pop((queue_id, name), None)
        self._due.pop((queue_id, name), None)
        place = self._places.pop((queue_id, name), 0)
        if place:
            self._store.forget([place])

    # -- writing --------------------------------------------------------------------------------

    @property
    def _store(self) -> JournalQueue:
        return self._journal.queue(PRODUCERS_ID)

    def write_pending(self) -> None:
        """Write the entries that changed before the last flush; called when a flush begins."""
        if self._due:
            due, self._due = self._due, {}
            self._write(due)
        if self._dirty:
            dirty, self._dirty = self._dirty, {}
            for queue_id, name in dirty:
                known, mark = self._known[queue_id][name], self._marks[queue_id]
                self._due[queue_id, name] = ProducerEntry(queue_id, name, known, mark)

    def _write(self, entries: Mapping[tuple[int, str], ProducerEntry]) -> None:
        store = self._store
        contents = [
            build_frames(1, _PROPERTIES, msgspec.msgpack.encode(entry), 0) for entry in entries.values()
        ]
        first = store.next_sequence
        store.append_contents(first, [_PUBLISH] * len(contents), contents, 0, durable=True)
        replaced = [place for key in entries if (place := self._places.get(key))]
        self._places.update(zip(entries, range(first, first + len(entries)), strict=True))
        store.forget(replaced)

    def rewrite_damaged(self, sequences: Collection[int]) -> None:
        """Write entries again whose records are damaged, and remove the records that recovery could not
        read. No other node can help: each one numbers its own records."""
        keys = {place: key for key, place in self._places.items()}
        unreadable = [number for number in sequences if number not in keys]
        # An entry takes the way of a changed one, because its mark may cover messages that are not synced.
        self._dirty.update((keys[number], None) for number in sequences if number in keys)
        self._store.forget(unreadable)
        for queue_id, known in self._known.items() if unreadable else ():
            if NO_PRODUCER not in known:
                known[NO_PRODUCER] = 0
                self._dirty[queue_id, NO_PRODUCER] = None
        self._journal.want_sync()  # the flush of this turn; the next one writes the entries

    # -- recovery -------------------------------------------------------------------------------

    def recover(self) -> None:
        """Read the records, and the headers of messages beyond their marks."""
        if PRODUCERS_ID not in self._journal.queues:
            return
        for message in self._loaded(self._store):
            entry = _decoder.decode(body_of(message.frames))
            self._known.setdefault(entry.queue_id, {})[entry.producer] = entry.highest
            self._marks[entry.queue_id] = max(self._marks.get(entry.queue_id, 0), entry.mark)
            self._places[entry.queue_id, entry.producer] = message.sequence
        for queue_id, mark in list(self._marks.items()):
            if queue_id in self._journal.queues:
                self._catch_up(queue_id, mark)

    def _catch_up(self, queue_id: int, mark: int) -> None:
        known = self._known[queue_id]
        for message in self._loaded(self._journal.queue(queue_id), mark):
            found = publish_ids_in(message.properties)
            if found is not None and found[1] > known.get(found[0], -1):
                known[found[0]] = found[1]
                self._dirty[queue_id, found[0]] = None
            self._marks[queue_id] = message.sequence + 1

    def _loaded(self, store: JournalQueue, first: int = 0) -> list[Message]:
        """Return the messages from a sequence on, without those that are damaged on disk."""
        messages: list[Message] = []
        while numbers := store.between(first, EVERY_SEQUENCE, READ_AT_ONCE):
            try:
                messages += store.load(numbers)
            except DamageError as damage:
                lost = set(damage.sequences)
                messages += store.load([number for number in numbers if number not in lost])
            first = numbers[-1] + 1
        return messages
