"""Spans behave like the sets of numbers that they stand for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.sequences import spans
from mirrormq.sequences.spans import Interval, Span

some = st.lists(st.builds(Span, st.integers(0, 60), st.integers(1, 9)), max_size=8)


def numbers(found: list[Span]) -> set[int]:
    for (first, count), (after, _) in pairwise(found):
        assert first + count < after, "neighbours are joined"
    return {number for first, count in found for number in range(first, first + count)}


def plain(found: list[Span]) -> set[int]:
    return {number for first, count in found for number in range(first, first + count)}


@given(some, some)
def test_sets_of_numbers(one: list[Span], other: list[Span]) -> None:
    left, right = spans.joined(one), spans.joined(other)
    assert numbers(left) == plain(one)
    assert spans.count_of(left) == len(plain(one))
    assert plain(spans.common(left, right)) == plain(one) & plain(other)
    assert numbers(spans.without(left, right)) == plain(one) - plain(other)


@given(some, st.integers(0, 70))
def test_spans_below_a_number(one: list[Span], end: int) -> None:
    assert plain(spans.below(spans.joined(one), end)) == {n for n in plain(one) if n < end}


@given(some)
def test_packed_and_back(one: list[Span]) -> None:
    found = spans.joined(one)
    assert spans.unpack(spans.pack(found)) == found


@pytest.mark.parametrize("wrong", [b"123", spans.pack([Span(5, 2), Span(6, 1)]), spans.pack([Span(5, 0)])])
def test_bytes_that_are_no_packed_spans_are_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="spans"):
        spans.unpack(wrong)


@given(st.lists(st.integers(1, 60)))
def test_numbers_in_any_order_become_the_spans_that_cover_them(numbers: list[int]) -> None:
    found = spans.spans_of_unordered(numbers)
    assert [number for span in found for number in range(span.first, span.end)] == sorted(set(numbers))
    assert found == spans.spans_of(sorted(set(numbers)))
    intervals = spans.intervals_of(numbers)
    assert [(span.first, span.end - 1) for span in found] == intervals
    assert spans.joined_intervals([Interval(number, number) for number in set(numbers)]) == intervals


@given(some)
def test_joined_spans_are_disjoint_and_cover_the_same(one: list[Span]) -> None:
    expected = {number for span in one for number in range(span.first, span.end)}
    found = spans.joined(one)
    assert [number for span in found for number in range(span.first, span.end)] == sorted(expected)
    assert all(low.end < high.first for low, high in pairwise(found))
