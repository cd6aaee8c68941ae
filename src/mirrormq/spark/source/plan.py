"""Planning: cut a batch into partitions, one task each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from mirrormq.sequences.spans import Span, count_of

PARTITION_MESSAGES = 250_000
"""Most messages of a task: a large batch gives every core work, and the failure of a task costs little.
Writing this many small messages takes a core a second or more, starting a task a twentieth of that."""

PARTITION_BYTES = 256 * 1024 * 1024
"""Most bytes of a task, for large messages."""

SHARED_MESSAGES = 25_000
SHARED_BYTES = 25 * 1024 * 1024
"""Most messages and bytes of a task for several queues: reading them takes as long as starting a task. A
larger queue keeps tasks of its own, so that all cores get work."""


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

    def __init__(
        self, parts: Sequence[PartitionPart], index: int, orders: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self.parts = tuple(parts)
        self.index = index
        """Index in the batch; spreads tasks over the nodes."""
        self.orders = dict(orders or {})
        """Queue → preferred nodes, by index among the URIs; empty without a preference."""

    def __repr__(self) -> str:
        queues = ", ".join(dict.fromkeys(repr(part.queue) for part in self.parts[:3]))
        more = ", …" if len(self.parts) > 3 else ""
        return f"RangePartition({queues}{more}, {sum(part.messages for part in self.parts)} messages)"


def partitions(
    parts: Sequence[PartitionPart], at_least: int, order: Callable[[str], tuple[int, ...]] = lambda queue: ()
) -> list[InputPartition]:
    """Cut parts into tasks of limited size, with at least `at_least` tasks if there are messages. Several
    small queues share a task.

    `order` returns the preferred nodes for a queue. It has no influence on the cut: a repeated batch is cut
    as before, whichever nodes are masters by then.
    """
    total = sum(part.messages for part in parts)
    found: list[PartitionPart] = []
    for part in parts:
        if part.messages:
            share = -(-at_least * part.messages // total)
            by_messages = -(-part.messages // PARTITION_MESSAGES)
            by_bytes = -(-part.bytes // PARTITION_BYTES)
            found += cut(part, min(max(share, by_messages, by_bytes), part.messages))
    tasks = _shared(found, max(1, min(SHARED_MESSAGES, total // at_least)))
    orders = {queue: given for queue in {part.queue for part in found} if (given := order(queue))}
    return [
        RangePartition(task, index, {part.queue: orders[part.queue] for part in task if part.queue in orders})
        for index, task in enumerate(tasks)
    ]


def _shared(parts: Sequence[PartitionPart], messages_max: int) -> list[list[PartitionPart]]:
    """Combine neighbouring parts as long as they are small together."""
    tasks: list[list[PartitionPart]] = []
    messages = size = 0
    for part in parts:
        messages, size = messages + part.messages, size + part.bytes
        if not tasks or messages > messages_max or size > SHARED_BYTES:
            tasks.append([])
            messages, size = part.messages, part.bytes
        tasks[-1].append(part)
    return tasks


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
