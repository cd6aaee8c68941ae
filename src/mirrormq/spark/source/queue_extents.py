"""Queues as the driver sees them: names, extents, and the ranges that `startingOffsets` and `endingOffsets`
select.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mirrormq.ranges import range_protocol
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.spark.client.node_names import node_names
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeAnswer, RangeClient
from mirrormq.spark.data_source_options import ANY, MASTER, SourceOptions
from mirrormq.spark.option_reader import EARLIEST, LATEST, Offsets


class QueueExtents:
    """Client of the driver with one connection, opened by the first request."""

    def __init__(self, options: SourceOptions) -> None:
        self.range_client = RangeClient(Nodes(options.addresses, timeouts=options.timeouts))
        self._options = options
        self._last: dict[str, QueueExtent] = {}
        """Extents of the last request."""

    def names(self) -> list[str]:
        """Return the queues to read, in order; with a pattern, those that match it now."""
        if self._options.pattern is None:
            return list(self._options.queues)
        return self._matching(self._options.pattern)

    def _matching(self, pattern: str) -> list[str]:
        answer = self.range_client.ask(range_protocol.queues())
        _, names = range_protocol.read_queues(answer.headers, bytes(answer.body))
        return [name for name in names if re.fullmatch(pattern, name)]

    def extent(self, queue: str) -> QueueExtent | None:
        """Return the extent of a queue; None if it does not exist."""
        return self.extents_of([queue]).get(queue)

    def extents(self) -> dict[str, QueueExtent]:
        """Return the extents of all existing queues to read."""
        return self.extents_of(self.names())

    def extents_of(self, names: Sequence[str]) -> dict[str, QueueExtent]:
        """Return the extents of those queues that exist, in one round trip."""
        found = {}
        answers = self.range_client.ask_all([range_protocol.extent(name) for name in names])
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, RangeAnswer):
                found[name] = range_protocol.read_extent(answer.headers)
            elif answer.reason != NO_QUEUE:
                raise answer
        self._last.update(found)
        return found

    def order(self, queue: str) -> tuple[int, ...]:
        """Return the nodes to read a queue from, by index among the URIs, preferred ones first; empty without
        a preference."""
        if self._options.replica == ANY:
            return ()
        extent = self._last.get(queue) or self.extent(queue)
        if extent is None:
            return ()
        mirrors = set(extent.synchronised) - {extent.master}
        preferred = {extent.master} if self._options.replica == MASTER else mirrors
        names = node_names(self._options.addresses, self._options.timeouts)
        return tuple(sorted(range(len(names)), key=lambda place: names[place] not in preferred))

    def close(self) -> None:
        self.range_client.close()


def resolve(offsets: Offsets, name: str, extent: QueueExtent) -> int:
    """Return the sequence that an option gives for a queue; queues that JSON does not name begin at the
    start."""
    if offsets == EARLIEST:
        return extent.first
    if offsets == LATEST:
        return extent.next
    assert isinstance(offsets, Mapping)
    return offsets.get(name, extent.first)


def starting(options: SourceOptions, name: str, extent: QueueExtent) -> int:
    """Return the first sequence to read."""
    return resolve(options.starting, name, extent)


def ending(options: SourceOptions, name: str, extent: QueueExtent) -> int:
    """Return the first sequence that is not read; queues that JSON does not name are read to their end."""
    if isinstance(options.ending, Mapping):
        return options.ending.get(name, extent.next)
    return resolve(options.ending, name, extent)
