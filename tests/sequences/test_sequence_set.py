"""SequenceSet compared with a plain set."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.sequences.sequence_set import CHUNK, PackedNumbers, SequenceSet, unpack
from mirrormq.sequences.spans import Span, spans_of

numbers = st.one_of(
    st.integers(0, 60), st.integers(CHUNK - 20, CHUNK + 20), st.integers(3 * CHUNK, 3 * CHUNK + 9)
)
sizes = st.one_of(st.integers(0, 12), st.integers(CHUNK - 2, 2 * CHUNK + 2))
steps = st.lists(st.tuples(st.booleans(), numbers, sizes), max_size=20)
sets = st.lists(st.tuples(numbers, sizes), max_size=6)


@given(steps)
def test_a_sequence_set_is_a_set(history: list[tuple[bool, int, int]]) -> None:
    found, model = SequenceSet(), set[int]()
    for adding, first, size in history:
        span = set(range(first, first + size))
        if adding:
            found.add(first, size)
            model |= span
        else:
            assert found.remove(first, size) == len(model & span)
            model -= span
        assert list(found.numbers()) == sorted(model)
        assert found.count == len(model)
        assert all((number in found) == (number in model) for number in range(0, 4 * CHUNK, 7))
        assert bool(found) == bool(model)
        assert found.spans() == spans_of(sorted(model)), "neighbours are joined"
        assert found.first_numbers(5) == sorted(model)[:5]


@given(sets, sets)
def test_sets_are_subtracted_and_travel(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    one, other = SequenceSet(map(Span._make, left)), SequenceSet(map(Span._make, right))
    twin = one.copy()
    twin.subtract(other)
    assert set(twin.numbers()) == set(one.numbers()) - set(other.numbers())
    assert twin.count == len(set(twin.numbers()))
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(one.pack()), type=PackedNumbers)
    assert unpack(sent) == one


def test_a_very_long_stretch_is_taken_out_of_a_small_set_at_once() -> None:
    found = SequenceSet([Span(5, 2), Span(1 << 50, 3)])
    assert found.remove(0, 1 << 62) == 5
    assert not found


def test_a_million_scattered_numbers_travel_in_bits() -> None:
    scattered = SequenceSet()
    for first in range(0, 1_000_000, 256):
        scattered.add_mask(first, int("01" * 128, 2))
    assert scattered.count == 500_096
    assert len(msgspec.msgpack.encode(scattered.pack())) < 150_000


@given(st.sets(numbers))
def test_ranges_say_the_same(chosen: set[int]) -> None:
    assert list(SequenceSet(spans_of(sorted(chosen))).numbers()) == sorted(chosen)
