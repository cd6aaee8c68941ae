"""Message reader: reads neighbours in one read, verifies each record, shares envelopes.

Messages with equal publish payloads whose properties do not concern the broker share one envelope, as when
they were published (`wire.properties.plain_traits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mirrormq.queues.message import Envelope, Message
from mirrormq.storage import journal_records
from mirrormq.storage.damage import DamagedRecords
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.journal_limits import (
    ENVELOPE_CACHE_ENTRIES,
    READ_GAP_BYTES,
    READ_TAIL_BYTES,
    READ_WINDOW_BYTES,
)
from mirrormq.storage.journal_writer import JournalWriter
from mirrormq.storage.position_table import PositionTable
from mirrormq.storage.segments import Segment, Segments
from mirrormq.wire.content import properties_of
from mirrormq.wire.properties import NOT_PLAIN, plain_traits

MakeEnvelope = Callable[[bytes, bytes], Envelope]
"""Function of the basic.publish payload and the raw properties, beginning with their flags."""

_HEAD_BYTES: Final[int] = journal_records.MESSAGE_HEAD.size
NOT_A_MESSAGE: Final = bytes(_HEAD_BYTES)
"""Head of a message of queue 0, which does not exist."""

_start_of: Final[Callable[[bytes, int], tuple[int, int, int]]] = journal_records.START.unpack_from
_head_of: Final[Callable[[bytes], tuple[int, int, int, int, int, int, int, int]]] = (
    journal_records.MESSAGE_HEAD.unpack_from
)


class MessageReader:
    """Reads messages from the segments."""

    def __init__(
        self, writer: JournalWriter, segments: Segments, make_envelope: MakeEnvelope, damage: DamagedRecords
    ) -> None:
        self._damage = damage
        self._writer = writer
        self._segments = segments
        self._make_envelope = make_envelope
        self.messages_read = 0
        """Number of messages read since the start."""
        self._plain_envelopes: dict[tuple[bytes, int], Envelope] = {}
        """Envelopes by publish payload and traits, of messages whose properties do not concern the broker."""
        self._envelopes: dict[tuple[bytes, bytes], Envelope] = {}

    def read_record(self, segment: Segment, offset: int) -> bytes | None:
        """Read the body of the record at an offset of a segment; None if it is damaged."""
        try:
            start = self._writer.read(segment.number, journal_records.PREFIX_BYTES, offset)
            if len(start) < journal_records.PREFIX_BYTES:
                return None
            length, check = journal_records.PREFIX.unpack(start)
            offset += journal_records.PREFIX_BYTES
            if not 0 < length <= segment.used_bytes - offset:
                return None
            body = self._writer.read(segment.number, length, offset)
        except OSError:
            return None
        return body if len(body) == length and segment.checksum(segment.salt, body) == check else None

    def own_content(self, segment: Segment, body: bytes) -> bytes | None:
        """Convert a valid message record of any kind to a MESSAGE with its own content. Return None if the
        record with the content is damaged."""
        head = journal_records.message_head(body)
        publish, content = body[head.publish_at : head.content_at], body[head.content_at :]
        if head.flags & journal_records.SHARED:
            offset, _ = journal_records.REFERENCE.unpack(content)
            owner = self.read_record(segment, offset)
            if owner is None or owner[0] not in journal_records.MESSAGES:
                return None
            content = owner[journal_records.message_head(owner).content_at :]
        return journal_records.message_body(head, publish, content)

    def load(
        self, queue_id: int, table: PositionTable, paged: PositionTable, sequences: Sequence[int]
    ) -> list[Message]:
        """Return messages in the requested order. Raise DamagedMessages for damaged records, and KeyError
        for a sequence that is not stored."""
        if not sequences:
            return []
        self.messages_read += len(sequences)
        positions = positions_of(queue_id, table, paged, sequences)
        order = sorted(range(len(positions)), key=positions.__getitem__)
        messages: list[Message] = []
        damaged: list[int] = []
        start = 0
        while start < len(order):
            end = self._window(positions, order, start)
            wanted = [(positions[index], sequences[index]) for index in order[start:end]]
            self._read_window(queue_id, wanted, messages, damaged)
            start = end
        if damaged:
            self._damage.note(queue_id, damaged)
            raise DamagedMessages(queue_id, sorted(damaged))
        if order != list(range(len(order))):
            by_sequence = {message.sequence: message for message in messages}
            return [by_sequence[sequence] for sequence in sequences]
        return messages

    def _window(self, positions: Sequence[int], order: Sequence[int], start: int) -> int:
        """Return the end (exclusive) of the messages that one read can serve, from `order[start]` on."""
        first = previous = positions[order[start]]
        limit = min(first + READ_WINDOW_BYTES, ((first >> 32) + 1) << 32)
        for end in range(start + 1, len(order)):
            position = positions[order[end]]
            if position >= limit or position - previous > READ_GAP_BYTES:
                return end
            previous = position
        return len(order)

    def _read_window(
        self, queue_id: int, wanted: Sequence[tuple[int, int]], messages: list[Message], damaged: list[int]
    ) -> None:
        """Read and decode (position, sequence) pairs that lie close together in one segment."""
        first, last = wanted[0][0], wanted[-1][0]
        segment = self._segments.by_number[first >> 32]
        try:
            data = self._writer.read(segment.number, last - first + READ_TAIL_BYTES, first - segment.base)
        except OSError:
            damaged += [sequence for _, sequence in wanted]
            return
        salt, checksum = segment.salt, segment.checksum
        prefix_bytes, size = journal_records.PREFIX_BYTES, len(data)
        last_publish, last_traits = b"", NOT_PLAIN
        envelope: Envelope | None = None
        for position, sequence in wanted:
            offset = position - first + prefix_bytes
            if offset + _HEAD_BYTES > size:
                damaged.append(sequence)
                continue
            length, check, kind = _start_of(data, offset - prefix_bytes)
            body = data[offset : offset + length]
            if len(body) < length:
                body = self._read_long(segment, position, length)
            if len(body) != length or checksum(salt, body) != check:
                damaged.append(sequence)
                continue
            if kind != journal_records.MESSAGE or body[1] & journal_records.SHARED:
                body = self._with_own_content(segment, body)
            _, _, _, publish_length, owner, number, ingested_ms, expires_at = _head_of(body)
            if owner != queue_id or number != sequence:  # a valid record, but of another message
                damaged.append(sequence)
                continue
            publish = body[_HEAD_BYTES : _HEAD_BYTES + publish_length]
            frames = body[_HEAD_BYTES + publish_length :]
            traits = plain_traits(frames)
            if envelope is None or traits != last_traits or traits == NOT_PLAIN or publish != last_publish:
                envelope = self._envelope(publish, frames, traits)
                last_publish, last_traits = publish, traits
            message = Message(envelope, frames, expires_at)
            message.sequence = sequence
            message.position = position
            message.ingested_ms = ingested_ms
            messages.append(message)

    def _with_own_content(self, segment: Segment, body: bytes) -> bytes:
        """Return a valid record as a MESSAGE with its own content, or NOT_A_MESSAGE if that is impossible."""
        whole = self.own_content(segment, body) if body[0] in journal_records.MESSAGES else None
        return NOT_A_MESSAGE if whole is None else whole

    def _read_long(self, segment: Segment, position: int, length: int) -> bytes:
        """Read the body of a record that extends beyond the window."""
        offset = position - segment.base + journal_records.PREFIX_BYTES
        try:
            return self._writer.read(segment.number, min(length, segment.used_bytes - offset), offset)
        except OSError:
            return b""

    def _envelope(self, publish: bytes, frames: bytes, traits: int) -> Envelope:
        """Return the envelope of a message with these traits."""
        if traits == NOT_PLAIN:
            return self._own_envelope(publish, properties_of(frames))
        key = (publish, traits)
        envelope = self._plain_envelopes.get(key)
        if envelope is None:
            if len(self._plain_envelopes) >= ENVELOPE_CACHE_ENTRIES:
                self._plain_envelopes.clear()
            envelope = self._plain_envelopes[key] = self._make_envelope(publish, properties_of(frames))
            envelope.properties = None
        return envelope

    def _own_envelope(self, publish: bytes, properties: bytes) -> Envelope:
        """Return the envelope of messages with equal properties."""
        key = (publish, properties)
        envelope = self._envelopes.get(key)
        if envelope is None:
            if len(self._envelopes) >= ENVELOPE_CACHE_ENTRIES:
                self._envelopes.clear()
            envelope = self._envelopes[key] = self._make_envelope(publish, properties)
        return envelope


def positions_of(
    queue_id: int, table: PositionTable, paged: PositionTable, sequences: Sequence[int]
) -> list[int]:
    """Return the positions of stored messages. Raise KeyError for a sequence that is not stored."""
    positions = table.positions(sequences) if table.count and sequences else [0] * len(sequences)
    if paged.count and 0 in positions:
        pairs = zip(positions, sequences, strict=True)
        positions = [position or paged.get(sequence) for position, sequence in pairs]
    if 0 in positions:
        raise KeyError(f"message {sequences[positions.index(0)]} of queue {queue_id} is not stored")
    return positions
