"""Replies are decoded for clients with field tables and for clients with native values."""

from __future__ import annotations

from mirrormq.ranges import range_protocol
from mirrormq.ranges.range_protocol import LeaseEntry, LeaseTakeEntry, QueueExtent, RangePart, TakenSpans
from mirrormq.wire.fields import Table, decode_table, encode_table, plain

EXTENT = QueueExtent(3, 10, 5, 500, True, 7, "a@b", ("a@b", "c@d"))


def sent(table: Table) -> Table:
    return decode_table(encode_table(table), 0)[0]


def test_answers_come_back() -> None:
    table = sent(range_protocol.extent_answer(EXTENT))
    assert range_protocol.read_extent(table) == range_protocol.read_extent(plain(table)) == EXTENT
    table = sent(range_protocol.part_answer(RangePart(1, 5, 9)))
    assert range_protocol.read_part(table) == range_protocol.read_part(plain(table)) == RangePart(1, 5, 9)
    table = sent(range_protocol.taken_answer(TakenSpans(4, 1, 9, 6, 600)))
    assert (
        range_protocol.read_taken(table)
        == range_protocol.read_taken(plain(table))
        == TakenSpans(4, 1, 9, 6, 600)
    )


def test_numbers_are_wide_and_truth_stays_truth() -> None:
    table = range_protocol.extent_answer(EXTENT)
    assert table["first"].kind == "l"
    assert table["durable"].kind == "t"


def test_a_list_of_leases_comes_back() -> None:
    lease = LeaseEntry("/", "q", "job", 2, 1, 9, 8, 80, 1000, None, "guest", [LeaseTakeEntry(2, 1, 9, 8, 80)])
    body = range_protocol.leases_answer([lease])
    assert b'"from":1' in body
    assert range_protocol.read_leases(body) == [lease]
