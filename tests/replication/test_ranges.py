"""RangeSet against a plain set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.replication.ranges import RangeSet, ranges_of

numbers = st.integers(0, 60)
steps = st.lists(st.tuples(st.booleans(), numbers, st.integers(0, 12)), max_size=40)


@given(steps)
def test_it_is_a_set(history: list[tuple[bool, int, int]]) -> None:
    found, model = RangeSet(), set[int]()
    for adding, first, size in history:
        stretch = set(range(first, first + size))
        if adding:
            found.add(first, size)
            model |= stretch
        else:
            assert found.remove(first, size) == len(model & stretch)
            model -= stretch
        assert list(found.numbers()) == sorted(model)
        assert found.count == len(model)
        assert all((number in found) == (number in model) for number in range(75))
        assert bool(found) == bool(model)
        assert found.ranges() == ranges_of(sorted(model)), "neighbours are joined"
        assert found.first_numbers(5) == sorted(model)[:5]


@given(st.sets(numbers))
def test_ranges_say_the_same(chosen: set[int]) -> None:
    assert list(RangeSet(ranges_of(sorted(chosen))).numbers()) == sorted(chosen)
