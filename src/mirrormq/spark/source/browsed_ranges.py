"""Ranges of queues that a browsing reader reads, from the options `startingOffsets` and `endingOffsets`."""

from __future__ import annotations

from collections.abc import Mapping

from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.option_reader import EARLIEST, LATEST, Offsets


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
