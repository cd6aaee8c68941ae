"""How a batch is cut into partitions, one task each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from mirrormq.ranges.spans import Span, count_of

PARTITION_MESSAGES = 250_000
"""A task has no more, so that a large batch gives every core work and no task's failure costs much. To write
so many small messages takes a core a second or more, to start a task a twentieth of that."""

PARTITION_BYTES = 256 * 1024 * 1024
"""The same for large messages."""


@dataclass(frozen=True)
class PartitionPart:
    """Messages of one queue that a batch reads."""

    queue: str
    spans: tuple[Span, ...]
    bytes: int
    """As far as known."""
    complete: bool
    """Whether every one of them must be there."""
    queue_id: int = 0
    """Only the queue with this id has them; a queue declared again under the name has others."""

    @property
    def messages(self) -> int:
        return count_of(self.spans)


class RangePartition(InputPartition):
    """What one task reads. It has no credentials: it may be printed."""

    def __init__(self, part: PartitionPart, index: int, order: tuple[int, ...] = ()) -> None:
        self.part = part
        self.index = index
        """Which of the batch's it is; spreads tasks over the nodes."""
        self.order = order
        """Which nodes to ask first, by their place among the URIs; empty if it does not matter."""

    def __repr__(self) -> str:
        return f"RangePartition({self.part.queue!r}, {self.part.messages} messages)"


def partitions(
    parts: Sequence[PartitionPart], at_least: int, order: Callable[[str], tuple[int, ...]] = lambda queue: ()
) -> list[InputPartition]:
    """Cut so that no task has too much, and that there are at least so many tasks if there are messages.

    `order` says which nodes to ask first for a queue.
    """
    total = sum(part.messages for part in parts)
    found: list[PartitionPart] = []
    for part in parts:
        if part.messages:
            share = -(-at_least * part.messages // total)
            by_messages = -(-part.messages // PARTITION_MESSAGES)
            by_bytes = -(-part.bytes // PARTITION_BYTES)
            found += cut(part, min(max(share, by_messages, by_bytes), part.messages))
    orders = {queue: order(queue) for queue in {part.queue for part in found}}
    return [RangePartition(part, index, orders[part.queue]) for index, part in enumerate(found)]


def cut(part: PartitionPart, pieces: int) -> list[PartitionPart]:
    """As many pieces, as equal as can be."""
    total = part.messages
    ends = [total * (number + 1) // pieces for number in range(pieces)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [
        replace(part, spans=spans, bytes=part.bytes * count_of(spans) // max(1, total))
        for spans in _runs(part.spans, sizes)
    ]


def _runs(spans: Iterable[Span], sizes: Iterable[int]) -> Iterable[tuple[Span, ...]]:
    """Stretches in runs of these sizes, which together are as many as they."""
    left = list(reversed(list(spans)))
    for size in sizes:
        run: list[Span] = []
        while size:
            first, count = left.pop()
            taken = min(size, count)
            run.append((first, taken))
            if taken < count:
                left.append((first + taken, count - taken))
            size -= taken
        yield tuple(run)


def shares(wanted: Sequence[int], limit: int) -> list[int]:
    """`limit` divided in proportion to what is wanted; nobody who wants something gets nothing."""
    total = sum(wanted)
    if total <= limit:
        return list(wanted)
    return [max(1, limit * each // total) if each else 0 for each in wanted]
