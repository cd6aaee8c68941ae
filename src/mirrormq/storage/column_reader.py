"""Column reader: reads many stored messages at once as columns, without one object per message.

Neighbours in a journal mostly differ only in sequence, times and body:

    length, check | kind … queue | sequence | ingested | expires | publish, header, body's head | body | 206
                  0              10         18         26        34

The bytes up to the queue, and the bytes between expiry time and body, are together the record's *shape*. A
record with the shape of the last record of its length is not parsed: its body is at the same offset. A
record with another shape is looked up among the shapes seen before. Every record's checksum is verified in
each case.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import compress
from struct import Struct

from mirrormq.storage import journal_records
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.journal_limits import READ_GAP_BYTES, READ_TAIL_BYTES, READ_WINDOW_BYTES, SHAPES_MAX
from mirrormq.storage.journal_writer import JournalWriter
from mirrormq.storage.message_reader import MessageReader, positions_of
from mirrormq.storage.position_table import PositionTable
from mirrormq.storage.segments import Segment, Segments
from mirrormq.wire.content import FRAME_OVERHEAD_BYTES, PROPERTIES_AT, body_of, properties_of

START = Struct("<II10sQQ")
"""Length and checksum; kind to queue; sequence; ingestion time."""
HEAD_BYTES = 10
MIDDLE_AT = journal_records.MESSAGE_HEAD.size
FRAME_HEAD_BYTES = 7
FRAME_SIZE = Struct(">I")
"""Length of a frame's payload, after type and channel."""


Run = tuple[bytes, bytes, int]
"""Publish payload, properties, and the number of consecutive messages that share them."""

Shape = tuple[bytes, bytes, int, bytes, bytes]
"""Shape of a record: bytes up to its queue, bytes between expiry time and body, offset of the body,
publish payload, properties."""

NO_SHAPE: Shape = (b"", b"", 0, b"", b"")
"""Placeholder that matches no record."""


class GatheredColumns:
    """Messages as columns."""

    __slots__ = ("bodies", "ingested_ms", "runs", "sequences")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.ingested_ms: list[int] = []
        """Ingestion times in milliseconds since the Unix epoch; 0 if unknown."""
        self.bodies: list[bytes] = []
        self.runs: list[Run] = []

    def add(self, sequence: int, publish: bytes, frames: bytes, ingested_ms: int = 0) -> None:
        """Add one message given as content frames."""
        self.sequences.append(sequence)
        self.ingested_ms.append(ingested_ms)
        self.bodies.append(body_of(frames))
        self.runs.append((publish, properties_of(frames), 1))

    def selected(self, wanted: list[bool]) -> GatheredColumns:
        """Return the messages for which `wanted` is true."""
        found = GatheredColumns()
        found.sequences = list(compress(self.sequences, wanted))
        found.ingested_ms = list(compress(self.ingested_ms, wanted))
        found.bodies = list(compress(self.bodies, wanted))
        first = 0
        for publish, properties, count in self.runs:
            left = sum(wanted[first : first + count])
            if left:
                found.runs.append((publish, properties, left))
            first += count
        return found


class RecordShapes:
    """Known shapes of records: the last one of each length, and all by the bytes between expiry time and
    body."""

    def __init__(self) -> None:
        self.by_length: dict[int, Shape] = {}
        self.by_middle: dict[bytes, Shape] = {}

    def remember(self, length: int, shape: Shape) -> None:
        """Record the shape of the last record of this length."""
        if len(self.by_middle) >= SHAPES_MAX or len(self.by_length) >= SHAPES_MAX:
            self.by_length.clear()
            self.by_middle.clear()
        self.by_length[length] = self.by_middle[shape[1]] = shape


class ColumnReader:
    """Column reader of one journal. Leaves unusual records to the message reader."""

    def __init__(self, loader: MessageReader, writer: JournalWriter, segments: Segments) -> None:
        self._loader = loader
        self._writer = writer
        self._segments = segments
        self._shapes = RecordShapes()

    def gather(
        self,
        queue_id: int,
        table: PositionTable,
        paged: PositionTable,
        sequences: Sequence[int],
        into: GatheredColumns,
    ) -> None:
        """Append the stored messages with these ascending sequences. Damaged records are left out."""

        def load(window_sequences: Sequence[int]) -> None:
            try:
                messages = self._loader.load(queue_id, table, paged, window_sequences)
            except DamagedMessages as damage:
                damaged = set(damage.sequences)
                intact = [number for number in window_sequences if number not in damaged]
                messages = self._loader.load(queue_id, table, paged, intact)
            for message in messages:
                into.add(message.sequence, message.envelope.publish, message.frames, message.ingested_ms)

        positions = positions_of(queue_id, table, paged, sequences)
        if positions != sorted(positions):
            load(sequences)
            return
        self._loader.messages_read += len(sequences)
        start = 0
        while start < len(positions):
            end = _window_end(positions, start)
            window_positions, window_sequences = positions[start:end], sequences[start:end]
            segment = self._segments.by_number[window_positions[0] >> 32]
            last_bytes = table.size_of(window_sequences[-1]) or paged.size_of(window_sequences[-1])
            size = window_positions[-1] - window_positions[0] + last_bytes + READ_TAIL_BYTES
            try:
                data = self._writer.read(segment.number, size, window_positions[0] - segment.base)
            except OSError:
                data = b""
            if window_positions[-1] - window_positions[0] + START.size > len(data):
                load(window_sequences)
            else:
                _Window(queue_id, segment, data, self._shapes, into, load).gather(
                    window_positions, window_sequences
                )
            start = end


def _window_end(positions: Sequence[int], start: int) -> int:
    """Return the end (exclusive) of one read. Gaps are included as long as they are small on average."""
    first = positions[start]
    limit = min(first + READ_WINDOW_BYTES, ((first >> 32) + 1) << 32)
    end = bisect_left(positions, limit, start + 1)
    while positions[end - 1] - first > READ_GAP_BYTES * (end - start):
        end = start + (end - start + 1) // 2
    return end


class _Window:
    """Part of a segment that is read at once, and the columns its messages go to."""

    def __init__(
        self,
        queue_id: int,
        segment: Segment,
        data: bytes,
        shapes: RecordShapes,
        into: GatheredColumns,
        load: Callable[[Sequence[int]], None],
    ) -> None:
        self._queue_id = queue_id
        self._segment = segment
        self._data = data
        self._shapes = shapes
        self._into = into
        self._load = load

    def gather(self, positions: Sequence[int], sequences: Sequence[int]) -> None:
        """Gather the window's messages (hot loop). The run of messages from `run_from` on is not recorded
        yet."""
        data, first = self._data, positions[0] - journal_records.PREFIX_BYTES
        salt, checksum, start_of = self._segment.salt, self._segment.checksum, START.unpack_from
        prefix_bytes, shape_of = journal_records.PREFIX_BYTES, self._shapes.by_length.get
        numbers, bodies, runs = self._into.sequences, self._into.bodies, self._into.runs
        ingested = self._into.ingested_ms
        last_length, run_from = -1, len(bodies)
        head, middle, body_at, publish, properties = NO_SHAPE
        for position, sequence in zip(positions, sequences, strict=True):
            offset = position - first
            length, check, found_head, number, ingested_ms = start_of(data, offset - prefix_bytes)
            record = data[offset : offset + length]
            if length != last_length:
                last_length = length
                head, middle, body_at, its_publish, its_properties = shape_of(length, NO_SHAPE)
                if its_properties != properties or its_publish != publish:
                    if run_from < len(bodies):
                        runs.append((publish, properties, len(bodies) - run_from))
                        run_from = len(bodies)
                    publish, properties = its_publish, its_properties
            if (
                number == sequence
                and found_head == head
                and record.startswith(middle, MIDDLE_AT)
                and checksum(salt, record) == check
            ):
                numbers.append(sequence)
                ingested.append(ingested_ms)
                bodies.append(record[body_at:-1])
                continue
            if run_from < len(bodies):
                runs.append((publish, properties, len(bodies) - run_from))
            shape = self._gather_other_shape(sequence, length, check, record, body_at)
            head, middle, body_at, publish, properties = shape
            run_from = len(bodies) - (shape is not NO_SHAPE)
        if run_from < len(bodies):
            runs.append((publish, properties, len(bodies) - run_from))

    def _gather_other_shape(
        self, sequence: int, length: int, check: int, record: bytes, body_at: int
    ) -> Shape:
        """Gather a record whose shape differs from the last record of its length, whose body was at
        `body_at`. Return its shape, with which a new run begins, or NO_SHAPE if the record is unusual and
        already recorded."""
        segment, into = self._segment, self._into
        whole = MIDDLE_AT <= length == len(record) and segment.checksum(segment.salt, record) == check
        if not whole or record[0] != journal_records.MESSAGE or record[1] & journal_records.SHARED:
            self._load([sequence])
            return NO_SHAPE
        _, _, _, publish_length, owner, number, ingested_ms, _ = journal_records.MESSAGE_HEAD.unpack_from(
            record
        )
        if owner != self._queue_id or number != sequence:
            self._load([sequence])
            return NO_SHAPE
        shape = self._shapes.by_middle.get(record[MIDDLE_AT:body_at], NO_SHAPE)
        if shape is NO_SHAPE or record[:HEAD_BYTES] != shape[0]:
            frames_at = MIDDLE_AT + publish_length
            header_end = frames_at + FRAME_OVERHEAD_BYTES + FRAME_SIZE.unpack_from(record, frames_at + 3)[0]
            body_at = header_end + FRAME_HEAD_BYTES
            if body_at > length or body_at + FRAME_SIZE.unpack_from(record, header_end + 3)[0] + 1 != length:
                into.add(sequence, record[MIDDLE_AT:frames_at], record[frames_at:], ingested_ms)
                return NO_SHAPE
            shape = (
                record[:HEAD_BYTES], record[MIDDLE_AT:body_at], body_at, record[MIDDLE_AT:frames_at],
                record[frames_at + PROPERTIES_AT : header_end - 1],
            )  # fmt: skip
        self._shapes.remember(length, shape)
        into.sequences.append(sequence)
        into.ingested_ms.append(ingested_ms)
        into.bodies.append(record[shape[2] : -1])
        return shape
