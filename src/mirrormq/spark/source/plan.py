"""Planning: cut a batch into partitions, one task each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from mirrormq.sequences.spans import Span, count_of

PARTITION_MESSAGES = 250_000
"""Most messages of a task: a large batch gives every core work, and the failure of a task costs little.
Writing this many small messages takes a core a second or more, starting a task a twentieth of that."""

PARTITION_BYTES = 256 * 1024 * 1024
"""Most bytes of a task, for large messages."""


@dataclass(frozen=True)
class PartitionPart:
    """Messages of one queue that a batch reads."""

    queue: str
    spans: tuple[Span, ...]
    bytes: int
    """Estimated size."""
    complete: bool
    """Whether a missing message is an error."""
    queue_id: int = 0
    """Id of the queue; a queue declared again under the name has other messages."""

    @property
    def messages(self) -> int:
        return count_of(self.spans)


class RangePartition(InputPartition):
    """Input of one task. It holds no credentials and may be printed."""

    def __init__(self, part: PartitionPart, index: int, order: tuple[int, ...] = ()) -> None:
        self.part = part
        self.index = index
        """Index in the batch; spreads tasks over the nodes."""
        self.order = order
        """Preferred nodes, by index among the URIs; empty without a preference."""

    def __repr__(self) -> str:
        return f"RangePartition({self.part.queue!r}, {self.part.messages} messages)"


def partitions(
    parts: Sequence[PartitionPart], at_least: int, order: Callable[[str], tuple[int, ...]] = lambda queue: ()
) -> list[InputPartition]:
    """Cut parts into tasks of limited size, with at least `at_least` tasks if there are messages.

    `order` returns the preferred nodes for a queue.
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
    """Cut a part into `pieces` of nearly equal size."""
    total = part.messages
    ends = [total * (number + 1) // pieces for number in range(pieces)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return [
        replace(part, spans=spans, bytes=part.bytes * count_of(spans) // max(1, total))
        for spans in _runs(part.spans, sizes)
    ]


def _runs(spans: Iterable[Span], sizes: Iterable[int]) -> Iterable[tuple[Span, ...]]:
    """Cut spans into runs of these sizes; the sizes add up to all messages."""
    left = list(reversed(list(spans)))
    for size in sizes:
        run: list[Span] = []
        while size:
            first, count = left.pop()
            taken = min(size, count)
            run.append(Span(first, taken))
            if taken < count:
                left.append(Span(first + taken, count - taken))
            size -= taken
        yield tuple(run)


def shares(wanted: Sequence[int], limit: int) -> list[int]:
    """Divide `limit` in proportion to the requested amounts; every non-zero request gets at least one."""
    total = sum(wanted)
    if total <= limit:
        return list(wanted)
    return [max(1, limit * each // total) if each else 0 for each in wanted]
