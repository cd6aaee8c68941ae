"""Reading many messages at once, as columns, for whoever has no use for an object for each.

Neighbours in a journal mostly differ in nothing but number, lifetime and body:

    length, checksum | kind … queue | number | expires at | publish, header frame, body's head | body | 206
                       0              10       18           26

What comes first, up to the queue, and what lies between lifetime and body are together the record's *shape*.
A record that has the shape of the last one of its length is not taken apart: its body is where the other's
was. Every record's checksum is looked at all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from mirrormq.storage import records
from mirrormq.storage.errors import DamagedMessages
from mirrormq.storage.limits import READ_GAP_BYTES, READ_TAIL_BYTES, READ_WINDOW_BYTES, SHAPES_MAX
from mirrormq.storage.loading import Loader, own_reference, positions_of
from mirrormq.storage.segments import Segment, Segments
from mirrormq.storage.table import PositionTable
from mirrormq.storage.writer import Writer
from mirrormq.wire.content import FRAME_OVERHEAD_BYTES, body_of, header_size, properties_of

START = Struct("<II10sQ")
"""Length and checksum; kind to queue; number."""
MIDDLE_AT = records.SINGLE_HEAD.size
FRAME_END_BYTES = 1


class Run(NamedTuple):
    """What so many messages in a row have in common."""

    publish: bytes
    properties: bytes
    messages: int


class Gathered:
    """Messages as columns."""

    __slots__ = ("bodies", "runs", "sequences")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.bodies: list[bytes] = []
        self.runs: list[Run] = []

    def add(self, sequence: int, publish: bytes, frames: bytes) -> None:
        """One more message, of content frames."""
        self.sequences.append(sequence)
        self.bodies.append(body_of(frames))
        self.alike(publish, properties_of(frames), 1)

    def alike(self, publish: bytes, properties: bytes, count: int) -> None:
        """The next so many messages have this in common."""
        if count:
            self.runs.append(Run(publish, properties, count))


class Shape(NamedTuple):
    """What a record of some length had beside number, lifetime and body."""

    head: bytes
    middle: bytes
    body_at: int
    publish: bytes
    properties: bytes


NO_SHAPE = Shape(b"", b"", 0, b"", b"")
"""No record has it."""


class Gatherer:
    """Reads messages of one journal; what is not as usual it lets the loader read."""

    def __init__(self, loader: Loader, writer: Writer, segments: Segments) -> None:
        self._loader = loader
        self._writer = writer
        self._segments = segments

    def gather(
        self,
        queue_id: int,
        table: PositionTable,
        paged: PositionTable,
        sequences: Sequence[int],
        into: Gathered,
    ) -> None:
        """Add stored messages with these ascending numbers; those whose records are bad are left out."""

        def load(numbers: Sequence[int]) -> None:
            try:
                messages = self._loader.load(queue_id, table, paged, numbers)
            except DamagedMessages as damage:
                lost = set(damage.sequences)
                left = [number for number in numbers if number not in lost]
                messages = self._loader.load(queue_id, table, paged, left)
            for message in messages:
                into.add(message.sequence, message.envelope.publish, message.frames)

        positions = positions_of(queue_id, table, paged, sequences)
        if positions != sorted(positions):
            load(sequences)
            return
        self._loader.messages_read += len(sequences)
        start = 0
        while start < len(positions):
            end = _window_end(positions, start)
            where, numbers = positions[start:end], sequences[start:end]
            segment = self._segments.by_number[where[0] >> 32]
            last_bytes = table.size_of(numbers[-1]) or paged.size_of(numbers[-1])
            size = where[-1] - where[0] + last_bytes + READ_TAIL_BYTES
            try:
                data = self._writer.read(segment.number, size, where[0] - segment.base)
            except OSError:
                data = b""
            if where[-1] - where[0] + START.size > len(data):
                load(numbers)
            else:
                _Window(queue_id, segment, data, into, load).gather(where, numbers)
            start = end


def _window_end(positions: Sequence[int], start: int) -> int:
    """How far (exclusive) one read should reach: gaps are read too while they are small on the whole."""
    first = positions[start]
    limit = min(first + READ_WINDOW_BYTES, ((first >> 32) + 1) << 32)
    end = bisect_left(positions, limit, start + 1)
    while positions[end - 1] - first > READ_GAP_BYTES * (end - start):
        end = start + (end - start + 1) // 2
    return end


class _Window:
    """A piece of a segment, and what is gathered of it."""

    def __init__(
        self,
        queue_id: int,
        segment: Segment,
        data: bytes,
        into: Gathered,
        load: Callable[[Sequence[int]], None],
    ) -> None:
        self._queue_id = queue_id
        self._segment = segment
        self._data = data
        self._into = into
        self._load = load
        self._shapes: dict[int, Shape] = {}

    def gather(self, positions: Sequence[int], sequences: Sequence[int]) -> None:
        """The hot loop. What the messages from `run_from` on have in common is not noted down yet."""
        data, first = self._data, positions[0] - records.PREFIX_BYTES
        salt, checksum, start_of = self._segment.salt, self._segment.checksum, START.unpack_from
        into, prefix_bytes = self._into, records.PREFIX_BYTES
        numbers, bodies = into.sequences, into.bodies
        last_length, shape, run_from = -1, NO_SHAPE, len(bodies)
        head, middle, body_at, publish, properties = shape
        for position, sequence in zip(positions, sequences, strict=True):
            at = position - first
            length, check, found_head, number = start_of(data, at - prefix_bytes)
            record = data[at : at + length]
            if length != last_length:
                last_length, before = length, shape
                shape = self._shapes.get(length, NO_SHAPE)
                head, middle, body_at, publish, properties = shape
                if before.properties != properties or before.publish != publish:
                    into.alike(before.publish, before.properties, len(bodies) - run_from)
                    run_from = len(bodies)
            if (
                number == sequence
                and found_head == head
                and record.startswith(middle, MIDDLE_AT)
                and checksum(salt, record) == check
            ):
                numbers.append(sequence)
                bodies.append(record[body_at:-1])
                continue
            into.alike(publish, properties, len(bodies) - run_from)
            shape = self._other(sequence, length, check, record)
            head, middle, body_at, publish, properties = shape
            run_from = len(bodies)
        into.alike(publish, properties, len(bodies) - run_from)

    def _other(self, sequence: int, length: int, check: int, record: bytes) -> Shape:
        """Take a record apart; gives its shape for the next one, NO_SHAPE if it is not a usual one."""
        segment, queue_id = self._segment, self._queue_id
        whole = MIDDLE_AT <= length == len(record) and segment.checksum(segment.salt, record) == check
        if not whole or record[0] != records.MESSAGE:
            self._load([sequence])
            return NO_SHAPE
        _, _, references, publish_length, owner, number, _ = records.SINGLE_HEAD.unpack_from(record)
        publish_at = MIDDLE_AT
        if references != 1:
            owner, number, _, publish_at = own_reference(record, references, queue_id, sequence)
        if owner != queue_id or number != sequence:
            self._load([sequence])
            return NO_SHAPE
        frames_at = publish_at + publish_length
        publish, frames = record[publish_at:frames_at], record[frames_at:]
        self._into.add(sequence, publish, frames)
        body_size = len(self._into.bodies[-1])
        usual_size = header_size(frames) + body_size + FRAME_OVERHEAD_BYTES
        if references != 1 or not body_size or len(frames) != usual_size:
            return NO_SHAPE
        body_at = length - body_size - FRAME_END_BYTES
        shape = Shape(record[:10], record[MIDDLE_AT:body_at], body_at, publish, properties_of(frames))
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[length] = shape
        return shape
