"""Comparison of both clusters: each difference is explained or named."""

from __future__ import annotations

import pytest

from mirrormq.migration.comparison import PREFETCH, Arrived, OldQueue, Stored, compare
from mirrormq.migration.move_ledger import Moved

QUEUE = ("/", "work")
EMPTY = OldQueue(0, 0)


def difference(
    moved: Moved, arrived: int | None, old: OldQueue | None = EMPTY, stored: Stored | None = None
) -> str:
    return compare(QUEUE, moved, None if arrived is None else Arrived(arrived, 1), old, stored).difference


@pytest.mark.parametrize(
    ("moved", "arrived", "old", "stored", "named"),
    [
        (Moved(10, 7, 0), 10, EMPTY, Stored(10, 7), ""),
        (Moved(10, 7, 0), 10, EMPTY, Stored(4, 2), ""),
        (Moved(10, 7, 3), 12, EMPTY, None, ""),
        (Moved(10, 7, 0), 9, EMPTY, None, "1 moved messages did not arrive"),
        (Moved(10, 7, 0), 12, EMPTY, None, "2 more messages arrived than moved"),
        (Moved(10, 7, 3), 11 + PREFETCH, EMPTY, None, f"{PREFETCH + 1} more messages arrived than moved"),
        (Moved(10, 7, 0), 10, EMPTY, Stored(10, 8), "the contents differ between the clusters"),
        (
            Moved(10, 7, 0),
            10,
            OldQueue(2, 1),
            None,
            "the old cluster still has 2 ready and 1 unacknowledged messages",
        ),
        (Moved(10, 7, 0), None, EMPTY, None, "the new cluster has no such queue"),
        (Moved(), None, EMPTY, None, ""),
        (Moved(), 0, None, None, ""),
    ],
)
def test_a_difference_is_named(
    moved: Moved, arrived: int | None, old: OldQueue | None, stored: Stored | None, named: str
) -> None:
    assert difference(moved, arrived, old, stored) == named


def test_messages_on_their_way_are_no_difference() -> None:
    row = compare(QUEUE, Moved(10, 7, 0), Arrived(60, 1), OldQueue(5, 50), None, under_way=True)
    assert (row.difference, row.left, row.digest) == ("", 55, "not read")
    assert compare(QUEUE, Moved(10, 7, 0), Arrived(9, 1), EMPTY, None, under_way=True).difference


def test_a_temporary_queue_may_be_gone() -> None:
    gone = compare(QUEUE, Moved(10, 7, 0), None, EMPTY, None, temporary=True)
    assert (gone.difference, gone.digest, gone.moved) == ("", "gone", 10)
    left = compare(QUEUE, Moved(10, 7, 0), None, OldQueue(1, 0), None, temporary=True)
    assert "the new cluster has no such queue" in left.difference


def test_repeats_are_counted() -> None:
    row = compare(QUEUE, Moved(10, 7, 3), Arrived(12, 2), EMPTY, Stored(12, 9))
    assert (row.moved, row.arrived, row.repeats, row.digest) == (10, 12, 2, "not read")
