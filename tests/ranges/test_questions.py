"""Answers are read as they were meant, by clients that have fields and by those that have native values."""

from __future__ import annotations

from mirrormq.ranges import questions
from mirrormq.ranges.questions import Extent, LeaseEntry, LeaseTake, Part, Taken
from mirrormq.wire.fields import Table, decode_table, encode_table, plain

EXTENT = Extent(3, 10, 5, 500, True, 7, "a@b", ("a@b", "c@d"))


def sent(table: Table) -> Table:
    return decode_table(encode_table(table), 0)[0]


def test_answers_come_back() -> None:
    table = sent(questions.extent_answer(EXTENT))
    assert questions.read_extent(table) == questions.read_extent(plain(table)) == EXTENT
    table = sent(questions.part_answer(Part(1, 5, 9)))
    assert questions.read_part(table) == questions.read_part(plain(table)) == Part(1, 5, 9)
    table = sent(questions.taken_answer(Taken(4, 1, 9, 6, 600)))
    assert questions.read_taken(table) == questions.read_taken(plain(table)) == Taken(4, 1, 9, 6, 600)


def test_numbers_are_wide_and_truth_stays_truth() -> None:
    table = questions.extent_answer(EXTENT)
    assert table["first"].kind == "l"
    assert table["durable"].kind == "t"


def test_a_list_of_leases_comes_back() -> None:
    lease = LeaseEntry("/", "q", "job", 2, 1, 9, 8, 80, 1000, None, "guest", [LeaseTake(2, 1, 9, 8, 80)])
    body = questions.leases_answer([lease])
    assert b'"from":1' in body
    assert questions.read_leases(body) == [lease]
