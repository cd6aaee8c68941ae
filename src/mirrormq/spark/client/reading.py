"""Range reads, several questions under way, so that the broker works while we do."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mirrormq.ranges import questions
from mirrormq.ranges.batch import Batch
from mirrormq.ranges.limits import READ_BYTES_MAX, READ_ROWS_MAX
from mirrormq.ranges.stretches import Stretch, pack
from mirrormq.spark.client.asking import Asker, Question

QUESTIONS_UNDER_WAY = 3
"""One is being answered, one is on its way, one is taken apart here."""


class Piece(NamedTuple):
    """A part of a range that one answer should hold, as far as one can tell."""

    from_: int
    to: int
    stretches: bytes
    """Empty if every message from `from_` to `to` is wanted."""


def pieces(stretches: Sequence[Stretch], rows: int) -> Iterator[Piece]:
    """Stretches, cut and put together so that each piece has `rows` messages, the last one fewer."""
    part: list[Stretch] = []
    held = 0
    for first, count in stretches:
        while count:
            size = min(count, rows - held)
            part.append((first, size))
            first, count, held = first + size, count - size, held + size
            if held == rows:
                yield _piece(part)
                part, held = [], 0
    if part:
        yield _piece(part)


def _piece(part: Sequence[Stretch]) -> Piece:
    return Piece(part[0][0], sum(part[-1]), b"" if len(part) == 1 else pack(part))


def rows_per_piece(message_bytes: float) -> int:
    """How many messages of this size an answer holds."""
    return max(1, min(READ_ROWS_MAX, int(READ_BYTES_MAX / (message_bytes + 1))))


def read(
    asker: Asker, queue: str, stretches: Sequence[Stretch], message_bytes: float = 0.0, queue_id: int = 0
) -> Iterator[Batch]:
    """The messages of these stretches that are (still) there, in order."""
    left = pieces(stretches, rows_per_piece(message_bytes))
    asked: deque[tuple[Piece, Question]] = deque()

    def ask(piece: Piece) -> tuple[Piece, Question]:
        headers = questions.meant(questions.read(queue, piece.from_, piece.to, READ_BYTES_MAX), queue_id)
        return piece, asker.begin(headers, piece.stretches)

    while True:
        while len(asked) < QUESTIONS_UNDER_WAY and (piece := next(left, None)) is not None:
            asked.append(ask(piece))
        if not asked:
            return
        piece, question = asked.popleft()
        answer = asker.finish(question)
        part = questions.read_part(answer.headers)
        if part.next < piece.to:
            asked.appendleft(ask(piece._replace(from_=part.next)))
        yield Batch(memoryview(answer.body))
