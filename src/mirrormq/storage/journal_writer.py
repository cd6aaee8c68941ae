"""Journal writer: collects records in memory, writes them with one call, syncs them with another.

Positions are known as soon as a record is buffered, because only this object appends. All segments but the
last are sealed, and sealing syncs; only the tail can hold unsynced bytes. After the first OSError the
writer refuses everything: after a failed fsync the kernel may have dropped the pages and would report
success the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mirrormq.clock import Clock
from mirrormq.queues.message import Message
from mirrormq.storage import journal_records
from mirrormq.storage.disk import File, LocalFile
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.journal_limits import JournalLimits
from mirrormq.storage.segment_header import DATA_AT
from mirrormq.storage.segments import Segment, Segments, widen

_pack_head: Final = journal_records.MESSAGE_HEAD.pack
_pack_prefix: Final = journal_records.PREFIX.pack
_pack_written: Final = journal_records.WRITTEN_BODY.pack
_HEAD_BYTES: Final = journal_records.MESSAGE_HEAD.size
_PREFIX_BYTES: Final = journal_records.PREFIX_BYTES


class JournalWriter:
    """Appends to the newest segment, and starts a new one when it is full."""

    def __init__(
        self,
        segments: Segments,
        segment_bytes: int,
        before_first: Callable[[], None],
        limits: JournalLimits,
    ) -> None:
        self._segments = segments
        self.segment_bytes = segment_bytes
        self._buffer_bytes_max = limits.buffer_bytes
        self.shared_content_bytes_min = limits.shared_content_bytes_min
        self.ack_ranges_per_record = limits.ack_ranges_per_record
        self._before_first = before_first
        self._parts: list[bytes] = []
        self._unjoined = False
        """Whether a large content is a part of its own: joining would copy it."""
        self._written = 0
        """Offset in the tail up to which records were written to the kernel."""
        self._synced = 0
        self.tail: Segment | None = None
        self._file: LocalFile | File | None = None
        self._end = 0
        """Offset after the last buffered record."""
        self.failure: str | None = None
        self.needs_sync = False
        self.messages_written = 0
        """Number of messages written since the start."""
        self.clock = Clock(0)
        """Source of the ingestion time of appended messages."""
        self._contents: dict[int, tuple[bytes, int]] = {}
        """Large contents in the buffer, by object identity, with the offsets of their records. At most
        `buffer_bytes` / `shared_content_bytes_min` of them."""

    @property
    def buffered(self) -> bool:
        """Whether records wait for the next write."""
        return self._end > self._written

    def check(self) -> None:
        """Raise JournalFailed after a failure."""
        if self.failure is not None:
            raise JournalFailed(self.failure)

    def fail(self, error: OSError) -> JournalFailed:
        """Record a failure permanently, and return the exception to raise."""
        self.failure = f"the journal cannot be written: {error}"
        return JournalFailed(self.failure)

    def reserve(self, size: int) -> Segment:
        """Return the segment that the next record of at most `size` bytes will be appended to."""
        return self._tail_for(size + _PREFIX_BYTES)

    def append(self, body: bytes) -> int:
        """Buffer one record and return its position."""
        size = len(body)
        tail = self._tail_for(size + _PREFIX_BYTES)
        self._parts.append(_pack_prefix(size, tail.checksum(tail.salt, body)))
        self._parts.append(body)
        position = tail.base + self._end
        self._end += size + _PREFIX_BYTES
        if self._end - self._written > self._buffer_bytes_max:
            self.drain()
        return position

    def append_message(self, queue_id: int, message: Message) -> int:
        """Buffer one durable message; gives its position."""
        publish, frames = message.envelope.publish, message.frames
        size = _HEAD_BYTES + len(publish) + len(frames)
        tail = self._tail_for(size + _PREFIX_BYTES)
        offset = self._end
        if not message.ingested_ms:
            message.ingested_ms = self.clock.now_ms
        head = _pack_head(
            journal_records.MESSAGE, journal_records.DURABLE, 0, len(publish), queue_id, message.sequence,
            message.ingested_ms, message.expires_at,
        )  # fmt: skip
        if len(frames) < self.shared_content_bytes_min:
            body = head + publish + frames
            self._parts.append(_pack_prefix(len(body), tail.checksum(tail.salt, body)))
            self._parts.append(body)
            self._end = offset + _PREFIX_BYTES + len(body)
        else:
            front, content = self._large(head, publish, frames, message.body_size, offset)
            self._end = offset + self._append_large(tail, front, content)
        message.position = position = tail.base + offset
        tail.total += 1
        tail.live += 1
        self.messages_written += 1
        widen(tail.stored, queue_id, message.sequence, message.sequence)
        self.needs_sync = True
        if self._end - self._written > self._buffer_bytes_max:
            self.drain()
        return position

    def append_messages(
        self, queue_id: int, messages: Sequence[Message], flags: int
    ) -> tuple[list[int], list[int], list[int]]:
        """Buffer messages of one queue. Return their sequences, positions and body sizes."""
        sequences: list[int] = []
        positions: list[int] = []
        sizes: list[int] = []
        while len(positions) < len(messages):
            done = len(positions)
            message = messages[done]
            least = _HEAD_BYTES + len(message.envelope.publish) + len(message.frames)
            tail = self._tail_for(least + _PREFIX_BYTES)
            rest = messages[done:] if done else messages
            self._append_run(tail, queue_id, rest, flags, sequences, positions, sizes)
            count = len(positions) - done
            tail.total += count
            self.messages_written += count
            tail.live += count
            if flags & journal_records.DURABLE:
                run = sequences[done:] if done else sequences
                widen(tail.stored, queue_id, min(run), max(run))
                self.needs_sync = True
        if self._end - self._written > self._buffer_bytes_max:
            self.drain()
        return sequences, positions, sizes

    def _append_run(
        self,
        tail: Segment,
        queue_id: int,
        messages: Sequence[Message],
        flags: int,
        sequences: list[int],
        positions: list[int],
        sizes: list[int],
    ) -> None:
        """Append as many messages as the tail has room for, the first in any case (hot loop)."""
        parts, base, end, salt, checksum = self._parts, tail.base, self._end, tail.salt, tail.checksum
        limit = self.segment_bytes
        pack_head, pack_prefix = _pack_head, _pack_prefix
        prefix_bytes = _PREFIX_BYTES
        envelope, publish, publish_length = None, b"", 0
        now_ms = self.clock.now_ms
        for message in messages:
            if message.envelope is not envelope:
                envelope = message.envelope
                publish = envelope.publish
                publish_length = len(publish)
            frames = message.frames
            sequence = message.sequence
            ingested_ms = message.ingested_ms
            if not ingested_ms:
                message.ingested_ms = ingested_ms = now_ms
            head = pack_head(
                0xE7, flags, 0, publish_length, queue_id, sequence, ingested_ms, message.expires_at
            )
            if len(frames) < self.shared_content_bytes_min:
                body = head + publish + frames
                after = end + prefix_bytes + len(body)
                if after > limit and end > DATA_AT:
                    break
                parts.append(pack_prefix(len(body), checksum(salt, body)))
                parts.append(body)
            else:
                front, content = self._large(head, publish, frames, message.body_size, end)
                after = end + prefix_bytes + len(front) + len(content)
                if after > limit and end > DATA_AT:
                    break
                self._append_large(tail, front, content)
            message.position = position = base + end
            sequences.append(sequence)
            positions.append(position)
            sizes.append(message.body_size)
            end = after
        self._end = end

    def _large(
        self, head: bytes, publish: bytes, frames: bytes, body_bytes: int, offset: int
    ) -> tuple[bytes, bytes]:
        """Return the two parts of a record with a large content at an offset. The second part is the content
        itself; it is empty if the buffer has the content already and the first part refers to it. If the tail
        has no room for the record, the next tail begins without known contents."""
        known = self._contents.get(id(frames))
        if known is None:
            self._contents[id(frames)] = (frames, offset)
            return head + publish, frames
        shared = bytes((head[0], head[1] | journal_records.SHARED)) + head[2:]
        return shared + publish + journal_records.REFERENCE.pack(known[1], body_bytes), b""

    def _append_large(self, tail: Segment, front: bytes, content: bytes) -> int:
        """Append a record without joining its parts. Return its size."""
        size = len(front) + len(content)
        checksum = tail.checksum(tail.salt, front)
        if content:
            checksum = tail.checksum(checksum, content)
        self._parts.append(_pack_prefix(size, checksum) + front)
        if content:
            self._parts.append(content)
            self._unjoined = True
        return _PREFIX_BYTES + size

    def append_contents(
        self,
        queue_id: int,
        first: int,
        publishes: Sequence[bytes],
        contents: Sequence[bytes],
        expires_at: int,
        flags: int,
        ingested_ms: Sequence[int],
    ) -> tuple[list[int], list[int]]:
        """Buffer messages with consecutive sequences. Return positions and body sizes. Used by callers
        that have publish payloads and contents without message objects."""
        times = ingested_ms or [self.clock.now_ms] * len(contents)
        positions: list[int] = []
        sizes: list[int] = []
        head_bytes = _HEAD_BYTES + _PREFIX_BYTES
        total = len(contents)
        while len(positions) < total:
            done = len(positions)
            tail = self._tail_for(head_bytes + len(publishes[0]) + len(contents[0]))
            self._append_contents(
                tail, queue_id, first + done, publishes, contents, expires_at, times, flags, positions, sizes
            )  # fmt: skip
            count = len(positions) - done
            tail.total += count
            self.messages_written += count
            tail.live += count
            if flags & journal_records.DURABLE:
                widen(tail.stored, queue_id, first + done, first + done + count - 1)
                self.needs_sync = True
            if len(positions) < total:
                publishes, contents, times = publishes[count:], contents[count:], times[count:]
        if self._end - self._written > self._buffer_bytes_max:
            self.drain()
        return positions, sizes

    def _append_contents(
        self, tail: Segment, queue_id: int, sequence: int, publishes: Sequence[bytes],
        contents: Sequence[bytes], expires_at: int, times: Sequence[int], flags: int, positions: list[int],
        sizes: list[int],
    ) -> None:  # fmt: skip
        """Append as many contents as the tail has room for, the first in any case (hot loop)."""
        parts, base, end, salt, checksum = self._parts, tail.base, self._end, tail.salt, tail.checksum
        limit = self.segment_bytes
        pack_head, pack_prefix = _pack_head, _pack_prefix
        prefix_bytes = _PREFIX_BYTES
        body_size, body_size_at = journal_records.BODY_SIZE.unpack_from, journal_records.BODY_SIZE_AT
        for publish, frames, ingested_ms in zip(publishes, contents, times, strict=True):
            body = (
                pack_head(0xE7, flags, 0, len(publish), queue_id, sequence, ingested_ms, expires_at) + publish
            )
            after = end + prefix_bytes + len(body) + len(frames)
            if after > limit and end > DATA_AT:
                break
            if len(frames) < self.shared_content_bytes_min:
                body += frames
                parts.append(pack_prefix(len(body), checksum(salt, body)))
                parts.append(body)
            else:
                self._append_large(tail, body, frames)
            positions.append(base + end)
            sizes.append(body_size(frames, body_size_at)[0])
            sequence += 1
            end = after
        self._end = end

    def _tail_for(self, size: int) -> Segment:
        """Return the tail, or a new one if `size` more bytes do not fit. An empty tail takes any size."""
        if self.failure is not None:
            raise JournalFailed(self.failure)
        tail = self.tail
        if tail is not None and (self._end + size <= self.segment_bytes or self._end == DATA_AT):
            return tail
        self.seal()
        try:
            self._before_first()
            self.tail, self._file = self._segments.create(self.segment_bytes)
        except OSError as error:
            raise self.fail(error) from error
        self._end = self._written = self._synced = DATA_AT
        self._contents.clear()
        return self.tail

    def drain(self) -> None:
        """Write the buffered records to the kernel."""
        if self.failure is not None:
            raise JournalFailed(self.failure)
        if self._end == self._written:
            return
        tail = self.tail
        assert self._file is not None and tail is not None
        # Every message is followed by a valid record, so that damage to the last one differs from a torn
        # tail.
        body = _pack_written(journal_records.WRITTEN, self._synced)
        self._parts += (_pack_prefix(len(body), tail.checksum(tail.salt, body)), body)
        self._end += journal_records.WRITTEN_BYTES
        try:
            if self._unjoined:
                self._file.write_parts(self._parts, self._written)
            else:
                self._file.write(b"".join(self._parts), self._written)
        except OSError as error:
            raise self.fail(error) from error
        self._parts = []
        self._unjoined = False
        self._contents.clear()
        self._written = tail.used_bytes = self._end

    def sync(self) -> None:
        """Write and fsync. Everything appended so far survives a crash once this returns."""
        self.drain()
        if self._synced < self._written:
            assert self._file is not None
            try:
                self._file.sync()
            except OSError as error:
                raise self.fail(error) from error
            self._synced = self._written
        self.needs_sync = False

    def seal(self) -> None:
        """Sync the tail and turn it into an ordinary segment. The next append starts another."""
        self.drain()
        if self.tail is None or self._file is None:
            return
        try:
            self._segments.seal(self.tail, self._file)
        except OSError as error:
            raise self.fail(error) from error
        self.tail, self._file = None, None
        self._end = self._written = self._synced = 0
        self.needs_sync = False

    def read(self, number: int, size: int, offset: int) -> bytes:
        """Read bytes of any segment, including buffered ones."""
        if self.tail is not None and number == self.tail.number:
            self.drain()
            assert self._file is not None
            return self._file.read(size, offset)
        return self._segments.file(number).read(size, offset)
