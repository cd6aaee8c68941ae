"""Range reads in progress: one slice of one read in each turn of the loop.

A read at full speed would occupy the whole processor and delay publishers and consumers of the node. A
read is therefore done in slices, one per turn of the loop, and readers take turns. On an idle node turn
follows turn, and a read is as fast as the disk and the columns permit. While queues are busy, all reads
together get a small share of the time and pause for the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from mirrormq.errors import NotFound, PreconditionFailed
from mirrormq.leases.lease_host import LeaseHost
from mirrormq.leases.range_sources import ColumnBuilder, RangeSource, ingested_within, read_slice, within
from mirrormq.ranges import range_limits, range_protocol
from mirrormq.ranges.error_reasons import TRY_AGAIN
from mirrormq.ranges.range_protocol import RangePart
from mirrormq.ranges.range_request import Answered, Refused, RequestValues, reply
from mirrormq.ranges.time_range import TimeRange
from mirrormq.sequences.spans import Span


class RangeRead:
    """One range read with its partial reply."""

    def __init__(
        self, source: RangeSource, part: RangePart, wanted: list[Span], limit_bytes: int, answered: Answered,
        refused: Refused, values: RequestValues,
    ) -> None:  # fmt: skip
        self.answered = answered
        self.refused = refused
        self._source = source
        self._part = part
        self._wanted = wanted
        self._limit_bytes = limit_bytes
        self._damaged = 0
        self._times = TimeRange.of_request(values)
        self._columns = ColumnBuilder(
            without_bodies=values.has("without_bodies"),
            with_ingestion_times=values.has("with_ingestion_times"),
        )

    def resume(self, rows: int, size_bytes: int) -> bool:
        """Read a slice. Return True if the read is complete and the reply was sent."""
        if not self._source.alive():
            self.refused(NotFound("the queue has another master; repeat the request", reason=TRY_AGAIN))
            return True
        columns = self._columns
        rows = min(rows, range_limits.READ_ROWS_MAX - columns.rows)
        room_bytes = self._limit_bytes - columns.size_bytes
        if self._wanted:
            read = read_slice(self._source, self._wanted, rows, min(room_bytes, size_bytes))
            # A lease settles all that it took. A reader must not settle a message that it never got.
            if read.damaged and self._source.store.awaits_repair(read.damaged):
                text = f"message {read.damaged[0]} is damaged on this node's disk and is being repaired"
                self.refused(NotFound(f"{text}; repeat the request", reason=TRY_AGAIN))
                return True
            if self._times.limited:
                read = ingested_within(read, self._times)
            # A message too large for the rest of this reply waits for the next one. A reply has one message
            # at least.
            if columns.rows and read.size_bytes > room_bytes:
                return self._answer(self._wanted[0][0])
            columns.add(read)
            self._damaged += len(read.damaged)
            self._wanted = within(self._wanted, read.next, self._part.to)
        if not self._wanted:
            return self._answer(self._part.to)
        if columns.size_bytes >= self._limit_bytes or columns.rows >= range_limits.READ_ROWS_MAX:
            return self._answer(self._wanted[0][0])
        return False

    def _answer(self, next_: int) -> bool:
        part = self._part._replace(next=next_, damaged=self._damaged)
        self.answered(reply(range_protocol.part_answer(part), self._columns.encode()))
        return True


class RangeReads:
    """All range reads of a node, in turn."""

    def __init__(self, broker: LeaseHost) -> None:
        self._broker = broker
        self._reads: dict[Hashable, deque[RangeRead]] = {}
        """Reads by reader; the first reader's turn is next."""
        self.awake = False
        self.deleted = False
        self._resting = False
        self._pumped = 0
        self._busy_until_ms = 0
        self._last_ms = 0

    def begin(
        self,
        reader: Hashable,
        source: RangeSource,
        values: RequestValues,
        answered: Answered,
        refused: Refused,
        limit_bytes: int,
    ) -> None:
        """Start the read of a part of a range."""
        first, to = values.number("from"), values.number("to")
        if to < first:
            raise PreconditionFailed(f"invalid range: it ends at {to}, before its start at {first}")
        wanted = within(values.spans(), first, to)
        requested_bytes = values.number("limit_bytes", limit_bytes) or limit_bytes
        part = RangePart(first, first, to)
        read = RangeRead(
            source, part, wanted, min(requested_bytes, limit_bytes), answered, refused, values
        )  # fmt: skip
        self._reads.setdefault(reader, deque()).append(read)
        if not self._resting:
            self._broker.wake(self)

    def forget(self, reader: Hashable) -> None:
        """Discard the reads of a reader that is gone."""
        self._reads.pop(reader, None)

    def pump(self) -> bool:
        """Read a slice for the next reader in turn."""
        if not self._reads:
            return False
        rows, size_bytes = range_limits.SLICE_ROWS, range_limits.SLICE_BYTES
        busy = self._is_busy()
        now_ms = self._broker.clock.now_ms
        if busy:
            since_ms = min(max(now_ms - self._last_ms, 0), range_limits.REST_MS * 2)
            rows = min(rows, since_ms * range_limits.BUSY_ROWS_PER_MS)
            size_bytes = min(size_bytes, since_ms * range_limits.BUSY_BYTES_PER_MS)
        if rows:
            self._last_ms = now_ms
            self._read(rows, size_bytes)
        if busy and self._reads:
            self._rest(now_ms)
            return False
        return bool(self._reads)

    def _is_busy(self) -> bool:
        """Return whether other work was done since the last slice, or a moment ago."""
        broker = self._broker
        # One of the pumps since the last slice was this object's own.
        others, self._pumped = broker.pumped - self._pumped - 1, broker.pumped
        if others > 0:
            self._busy_until_ms = broker.clock.now_ms + range_limits.BUSY_MS
        return broker.clock.now_ms < self._busy_until_ms

    def _read(self, rows: int, size_bytes: int) -> None:
        reader = next(iter(self._reads))
        reads = self._reads.pop(reader)
        if reads[0].resume(rows, size_bytes):
            reads.popleft()
        if reads:
            self._reads.setdefault(reader, deque()).extendleft(reversed(reads))

    def _rest(self, now_ms: int) -> None:
        def resume() -> None:
            self._resting = False
            self._broker.wake(self)

        self._resting = True
        self._broker.clock.at(now_ms + range_limits.REST_MS, resume)
