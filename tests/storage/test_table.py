"""Position table compared with a dictionary."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.storage.position_table import PositionTable

NUMBERS = st.integers(1, 1200)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NUMBERS, st.integers(1, 50)),
        st.tuples(st.just("put_run"), NUMBERS, st.integers(1, 600)),
        st.tuples(st.just("clear_run"), NUMBERS, st.integers(1, 100_000)),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, NUMBERS, st.integers(0, 700))
def test_the_table_is_a_dictionary_of_numbers(
    steps: list[tuple[str, int, int]], first: int, span: int
) -> None:
    table = PositionTable()
    model: dict[int, tuple[int, int]] = {}
    position = 0
    for kind, start, count in steps:
        if kind == "put":
            position += 1
            replaced = table.put(start, position, count)
            assert replaced == model.get(start, (0, 0))[0]
            model[start] = (position, count)
        elif kind == "put_run":
            positions = list(range(position + 1, position + 1 + count))
            position += count
            old = [model[number][0] for number in range(start, start + count) if number in model]
            assert sorted(table.put_run(start, positions, positions)) == sorted(old)
            model.update({start + index: (value, value) for index, value in enumerate(positions)})
        else:
            gone = [old for part in table.clear_run(start, count) for old in part if old]
            expected = [model.pop(number)[0] for number in sorted(model) if start <= number < start + count]
            assert sorted(gone) == sorted(expected)
        assert table.count == len(model)
        assert table.size_bytes == sum(size for _, size in model.values())
    assert list(table.live()) == sorted(model)
    wanted = range(first, first + span + 1)
    assert table.positions(wanted) == [model.get(number, (0, 0))[0] for number in wanted]
    absent = [
        number for low, count in table.missing(first, first + span) for number in range(low, low + count)
    ]
    assert absent == [number for number in wanted if number not in model]
    assert set(table.chunks) == {number >> 8 for number in model}
