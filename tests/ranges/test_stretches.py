"""Stretches behave like the sets of numbers that they stand for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.ranges import stretches
from mirrormq.ranges.stretches import Stretch

some = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=8)


def numbers(found: list[Stretch]) -> set[int]:
    for (first, count), (after, _) in pairwise(found):
        assert first + count < after, "neighbours are joined"
    return {number for first, count in found for number in range(first, first + count)}


def plain(found: list[Stretch]) -> set[int]:
    return {number for first, count in found for number in range(first, first + count)}


@given(some, some)
def test_sets_of_numbers(one: list[Stretch], other: list[Stretch]) -> None:
    left, right = stretches.joined(one), stretches.joined(other)
    assert numbers(left) == plain(one)
    assert stretches.count_of(left) == len(plain(one))
    assert plain(stretches.common(left, right)) == plain(one) & plain(other)
    assert numbers(stretches.without(left, right)) == plain(one) - plain(other)


@given(some, st.integers(0, 70))
def test_what_is_below_a_number(one: list[Stretch], end: int) -> None:
    assert plain(stretches.below(stretches.joined(one), end)) == {n for n in plain(one) if n < end}


@given(some)
def test_packed_and_back(one: list[Stretch]) -> None:
    found = stretches.joined(one)
    assert stretches.unpack(stretches.pack(found)) == found


@pytest.mark.parametrize("wrong", [b"123", stretches.pack([(5, 2), (6, 1)]), stretches.pack([(5, 0)])])
def test_what_is_no_packed_stretches_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="stretches"):
        stretches.unpack(wrong)
