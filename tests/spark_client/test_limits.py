"""Limits of a batch, divided among queues."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from mirrormq.ranges.range_protocol import QueueExtent
from mirrormq.spark.data_source_options import source_options
from mirrormq.spark.source.browse import BrowseReader
from mirrormq.spark.source.queue_stream import QueueShare, QueueStream


def stream(**more: str) -> QueueStream:
    options = {"uri": "amqp://127.0.0.1", "queues": "a,b", "mode": "browse", **more}
    return BrowseReader(source_options(options, streaming=True))


def extent(ready: int, ready_bytes: int) -> QueueExtent:
    return QueueExtent(1, 1 + ready, ready, ready_bytes, True, 1, "node", ("node",))


EXTENTS = [extent(100, 1_000), extent(300, 6_000)]


@pytest.mark.parametrize(
    ("limit", "bytes_max", "given"),
    [
        (ReadAllAvailable(), None, [(100, None), (300, None)]),
        (ReadAllAvailable(), "10", [(100, None), (300, None)]),
        (ReadMaxRows(40), None, [(10, None), (30, None)]),
        (ReadMaxRows(1_000), None, [(100, None), (300, None)]),
        (ReadMaxBytes(700), None, [(100, 100), (300, 600)]),
        (ReadMaxBytes(8_000), None, [(100, 1_500), (300, 6_500)]),
        (ReadMaxRows(40), "350", [(10, 50), (30, 300)]),
    ],
)
def test_a_limit_is_shared_by_messages_and_bytes(
    limit: ReadLimit, bytes_max: str | None, given: list[tuple[int, int | None]]
) -> None:
    reader = stream() if bytes_max is None else stream(maxBytesPerTrigger=bytes_max)
    assert reader.shared(EXTENTS, [100, 300], limit) == [QueueShare(*pair) for pair in given]


def test_messages_without_bodies_are_not_left_for_ever() -> None:
    empty = [extent(100, 0), extent(300, 6_000)]
    shares = stream().shared(empty, [100, 300], ReadMaxBytes(100))
    assert shares[0].bytes and shares[1].bytes


def test_browsing_counts_bytes_by_the_mean() -> None:
    assert QueueShare(100, None).expected(EXTENTS[0]) == 100
    assert QueueShare(100, 500).expected(EXTENTS[0]) == 50
    assert QueueShare(100, 1).expected(EXTENTS[0]) == 1
    assert QueueShare(0, 1).expected(EXTENTS[0]) == 0
    assert QueueShare(7, 500).expected(extent(0, 0)) == 7
