"""Checkers of the pipeline: publish ids and range reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from mirrormq.simulator.checkers import EndState, some


class PublishIdsAreKeptOnce:
    """Publish ids: a queue holds each message of a producer once, however often it was published. Only an
    orphan may repeat a message: it was in flight when a fork began, or when a disk failed."""

    def __init__(self, numbered: Callable[[str], bool]) -> None:
        self._numbered = numbered
        """Return whether only producers with publish ids publish to a queue."""

    def finish(self, end: EndState) -> Iterator[str]:
        orphans = {delivery.body for delivery in end.history.delivered if delivery.orphaned}
        for copy in end.filled():
            if copy.master and self._numbered(copy.queue):
                counts = Counter(body for body in copy.bodies if body not in orphans)
                if twice := [body for body, count in counts.items() if count > 1]:
                    yield f"kept more than once in {copy.queue}: {some(twice)}"


class ReadsAreRepeatable:
    """Range reads: a sequence of a queue is one message, whichever node answers and whenever. A queue that
    is declared again after deletion is another queue. After a fork each side has its own sequences."""

    def __init__(self, *, parting: bool) -> None:
        self._parting = parting

    def finish(self, end: EndState) -> Iterator[str]:
        first: dict[tuple[int, int], str] = {}
        wrong: set[str] = set()
        for read in end.history.read if not self._parting else ():
            known = first.setdefault((read.queue_id, read.sequence), read.body)
            if known != read.body:
                wrong.add(f"{read.sequence} of {read.queue} is {known}, and {read.body} at {read.at_ms} ms")
        if wrong:
            yield f"read differently: {some(wrong)}"
