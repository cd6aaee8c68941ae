"""Range reads with several requests in flight: the broker prepares one reply while the client decodes
another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_batch import RangeBatch
from mirrormq.ranges.range_limits import READ_BYTES_MAX, READ_ROWS_MAX
from mirrormq.sequences.spans import Span, pack
from mirrormq.spark.client.range_client import OutstandingRequest, RangeClient

QUESTIONS_UNDER_WAY = 3
"""Requests in flight: the broker handles one, one is on the network, the client decodes one."""


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


def read(
    range_client: RangeClient,
    queue: str,
    spans: Sequence[Span],
    message_bytes: float = 0.0,
    queue_id: int = 0,
) -> Iterator[RangeBatch]:
    """Yield the messages of these spans that are (still) in the queue, in order."""
    left = pieces(spans, rows_per_piece(message_bytes))
    asked: deque[tuple[RangePiece, OutstandingRequest]] = deque()

    def ask(piece: RangePiece) -> tuple[RangePiece, OutstandingRequest]:
        headers = range_protocol.meant(
            range_protocol.read(queue, piece.from_, piece.to, READ_BYTES_MAX), queue_id
        )
        return piece, range_client.begin(headers, piece.spans)

    while True:
        while len(asked) < QUESTIONS_UNDER_WAY and (piece := next(left, None)) is not None:
            asked.append(ask(piece))
        if not asked:
            return
        piece, question = asked.popleft()
        answer = range_client.finish(question)
        part = range_protocol.read_part(answer.headers)
        if part.next < piece.to:
            asked.appendleft(ask(piece._replace(from_=part.next)))
        yield RangeBatch(memoryview(answer.body))
