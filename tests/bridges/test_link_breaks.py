"""Links whose connections break between any two octets: what each acknowledgement mode guarantees."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.bridges.link import Side
from mirrormq.bridges.link_plan import AckMode
from tests.bridges.link_bench import LinkBench, drained, filled, plan_between_queues

MESSAGES = 12

moves = st.one_of(
    st.tuples(st.sampled_from(list(Side)), st.booleans(), st.integers(1, 600)),
    st.sampled_from(list(Side)),
)
"""Octets of one stream that move, or a cut of one connection."""


def run(mode: AckMode, prefetch: int, steps: Iterable[object]) -> tuple[list[int], list[int]]:
    """Run a link through the steps, then without faults; return what the destination and source hold."""
    bench = LinkBench(plan_between_queues(ack_mode=mode, prefetch=prefetch))
    filled(bench, MESSAGES)
    moved = moving(bench, steps)
    assert bench.link.status().state == "running"
    return moved, drained(bench.source, "from")


def moving(bench: LinkBench, steps: Iterable[object]) -> list[int]:
    """Run a link through the steps, then without faults; return what the destination holds."""
    bench.start()
    for step in steps:
        if isinstance(step, Side):
            bench.cut(step)
            bench.now_ms += 5_000
            bench.link.tick(bench.now_ms)
        else:
            assert isinstance(step, tuple)
            bench.step(*step)
    bench.settle()
    for _ in range(3):
        bench.advance(5_000)
    return drained(bench.destination, "to")


def first_occurrences(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 15), st.lists(moves, max_size=60))
def test_on_confirm_loses_nothing_and_keeps_the_order(prefetch: int, steps: list[object]) -> None:
    moved, left = run(AckMode.ON_CONFIRM, prefetch, steps)
    assert not left
    assert first_occurrences(moved) == list(range(MESSAGES))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 15), st.integers(0, MESSAGES), st.lists(moves, max_size=60))
def test_a_limit_is_the_number_of_confirms_over_all_attempts(
    prefetch: int, limit: int, steps: list[object]
) -> None:
    bench = LinkBench(plan_between_queues(limit=limit, prefetch=prefetch))
    filled(bench, MESSAGES)
    moved = moving(bench, steps)
    assert bench.finished is True
    assert bench.link.forwarded == limit
    arrived, left = moved, drained(bench.source, "from")
    assert set(arrived) | set(left) == set(range(MESSAGES))
    assert first_occurrences(arrived) == list(range(len(set(arrived))))
    if not any(isinstance(step, Side) for step in steps):
        assert (arrived, left) == (list(range(limit)), list(range(limit, MESSAGES)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 15), st.lists(moves, max_size=60))
def test_on_publish_keeps_the_order_and_loses_only_by_cuts(prefetch: int, steps: list[object]) -> None:
    moved, left = run(AckMode.ON_PUBLISH, prefetch, steps)
    assert not left
    assert first_occurrences(moved) == sorted(set(moved))
    if not any(isinstance(step, Side) for step in steps):
        assert moved == list(range(MESSAGES))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 15), st.lists(moves, max_size=60))
def test_no_ack_never_duplicates_and_loses_only_by_cuts(prefetch: int, steps: list[object]) -> None:
    moved, left = run(AckMode.NO_ACK, prefetch, steps)
    assert not left
    assert moved == sorted(set(moved)), "each message at most once, in order"
    if not any(isinstance(step, Side) for step in steps):
        assert moved == list(range(MESSAGES))
