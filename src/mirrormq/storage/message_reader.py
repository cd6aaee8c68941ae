"""Message reader: reads neighbours in one read, verifies each record, shares equal envelopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

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
from mirrormq.wire.content import HEADER_PAYLOAD_AT, PROPERTIES_AT

MakeEnvelope = Callable[[bytes, bytes], Envelope]
"""Function of the basic.publish payload and the raw properties, beginning with their flags."""

NOT_A_MESSAGE = bytes(journal_records.MESSAGE_HEAD.size)
"""Head of a message of queue 0, which does not exist."""

FRAME_SIZE = Struct(">I")
FRAME_SIZE_AT = 3


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
        salt, checksum, start_of = segment.salt, segment.checksum, journal_records.START.unpack_from
        prefix_bytes, size = journal_records.PREFIX_BYTES, len(data)
        head_of, head_bytes = journal_records.MESSAGE_HEAD.unpack_from, journal_records.MESSAGE_HEAD.size
        frame_size, body_size, body_size_at = (
            FRAME_SIZE.unpack_from,
            journal_records.BODY_SIZE.unpack_from,
            journal_records.BODY_SIZE_AT,
        )
        last_publish = last_properties = b""
        envelope: Envelope | None = None
        for position, sequence in wanted:
            offset = position - first + prefix_bytes
            if offset + head_bytes > size:
                damaged.append(sequence)
                continue
            length, check, kind = start_of(data, offset - prefix_bytes)
            body = data[offset : offset + length]
            if len(body) < length:
                body = self._read_long(segment, position, length)
            if len(body) != length or checksum(salt, body) != check:
                damaged.append(sequence)
                continue
            if kind != journal_records.MESSAGE or body[1] & journal_records.SHARED:
                body = self._with_own_content(segment, body)
            _, _, _, publish_length, owner, number, ingested_ms, expires_at = head_of(body)
            if owner != queue_id or number != sequence:  # a valid record, but of another message
                damaged.append(sequence)
                continue
            publish = body[head_bytes : head_bytes + publish_length]
            frames = body[head_bytes + publish_length :]
            properties = frames[PROPERTIES_AT : HEADER_PAYLOAD_AT + frame_size(frames, FRAME_SIZE_AT)[0]]
            if envelope is None or properties != last_properties or publish != last_publish:
                envelope = self._envelope(publish, properties)
                last_publish, last_properties = publish, properties
            message = Message(envelope, frames, expires_at, body_size(frames, body_size_at)[0])
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

    def _envelope(self, publish: bytes, properties: bytes) -> Envelope:
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
