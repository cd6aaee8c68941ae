"""Range reads with several requests in flight: the broker prepares one reply while the client decodes
another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_limits import READ_BYTES_MAX, READ_ROWS_MAX
from mirrormq.ranges.time_range import ALL_TIMES, TimeRange
from mirrormq.sequences.spans import Span, pack
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.range_client import OutstandingRequest, RangeClient

QUESTIONS_UNDER_WAY = 3
"""Requests in flight: the broker handles one, one is on the network, the client decodes one."""


class QueueRange(NamedTuple):
    """Messages of one queue that a client reads."""

    queue: str
    spans: Sequence[Span]
    message_bytes: float = 0.0
    """Estimated size of a message."""
    queue_id: int = 0
    without_bodies: bool = False
    with_ingestion_times: bool = False
    times: TimeRange = ALL_TIMES

    @property
    def rows_per_piece(self) -> int:
        """Number of messages that one reply is expected to hold."""
        return rows_per_piece(0.0 if self.without_bodies else self.message_bytes)


class RangePiece(NamedTuple):
    """Part of a range that one reply is expected to hold."""

    from_: int
    to: int
    spans: bytes
    """Packed spans; empty if every message from `from_` to `to` is requested."""


def pieces(spans: Sequence[Span], rows: int) -> Iterator[RangePiece]:
    """Cut and combine spans into pieces of `rows` messages each, the last one fewer."""
    part: list[Span] = []
    held = 0
    for first, count in spans:
        while count:
            size = min(count, rows - held)
            part.append(Span(first, size))
            first, count, held = first + size, count - size, held + size
            if held == rows:
                yield _piece(part)
                part, held = [], 0
    if part:
        yield _piece(part)


def _piece(part: Sequence[Span]) -> RangePiece:
    return RangePiece(part[0][0], sum(part[-1]), b"" if len(part) == 1 else pack(part))


def rows_per_piece(message_bytes: float) -> int:
    """Return the number of messages of this size that one reply holds."""
    return max(1, min(READ_ROWS_MAX, int(READ_BYTES_MAX / (message_bytes + 1))))


def read(range_client: RangeClient, wanted: QueueRange) -> Iterator[RangeBatch]:
    """Yield the messages of one queue that are (still) in it, in order."""
    for _, found in read_all(range_client, [wanted]):
        if isinstance(found, RequestRefused):
            raise found
        yield found


def read_all(
    range_client: RangeClient, wanted: Iterable[QueueRange]
) -> Iterator[tuple[QueueRange, RangeBatch | RequestRefused]]:
    """Yield the messages of several queues, queue by queue, in order. Requests of the next queue are in
    flight while a queue's last reply is awaited. A refusal ends the reads of its queue only."""
    left = ((each, piece) for each in wanted for piece in pieces(each.spans, each.rows_per_piece))
    asked: deque[tuple[QueueRange, RangePiece, OutstandingRequest]] = deque()
    refused: QueueRange | None = None

    def ask(each: QueueRange, piece: RangePiece) -> tuple[QueueRange, RangePiece, OutstandingRequest]:
        request = range_protocol.read(
            each.queue, piece.from_, piece.to, READ_BYTES_MAX, without_bodies=each.without_bodies,
            with_ingestion_times=each.with_ingestion_times,
        )  # fmt: skip
        request = each.times.restrict(range_protocol.meant(request, each.queue_id))
        return each, piece, range_client.begin(request, piece.spans)

    while True:
        while len(asked) < QUESTIONS_UNDER_WAY and (following := next(left, None)) is not None:
            if following[0] is not refused:
                asked.append(ask(*following))
        if not asked:
            return
        each, piece, question = asked.popleft()
        try:
            answer = range_client.finish(question)
        except RequestRefused as error:
            if not error.reason:
                raise
            if each is not refused:
                refused = each
                yield each, error
            continue
        part = range_protocol.read_part(answer.headers)
        if part.next < piece.to:
            asked.appendleft(ask(each, piece._replace(from_=part.next)))
        yield each, RangeBatch(memoryview(answer.body))
