"""Counters of a channel per exchange and per queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq import limits
from mirrormq.broker.traffic_counters import PerObjectCounters
from mirrormq.sequences.spans import Interval, intervals_of


@given(st.data())
def test_each_confirm_counts_for_the_exchange_that_was_published_to(data: st.DataObject) -> None:
    """Confirm publishes in any order, late, and in any pieces."""
    divided = PerObjectCounters()
    exchanges = data.draw(st.lists(st.sampled_from("abc"), max_size=30))
    for number, exchange in enumerate(exchanges, 1):
        divided.numbered(number, exchange)
    numbers = list(range(1, len(exchanges) + 1))
    still_open = set(numbers)
    while still_open:
        some = data.draw(st.sets(st.sampled_from(sorted(still_open)), min_size=1))
        still_open -= some
        divided.confirmed(intervals_of(some), min(still_open, default=len(exchanges) + 1))
    for exchange in "abc":
        assert divided.exchange(exchange).confirmed == exchanges.count(exchange)


def test_a_channel_that_has_been_everywhere_forgets_where_it_began() -> None:
    divided = PerObjectCounters()
    for number in range(limits.CHANNEL_PLACES_MAX + 5):
        divided.queue(f"q{number}").delivered += 1
        divided.exchange(f"x{number}").published += 1
        divided.routed(f"x{number}", f"q{number}", 1)
    sizes = {len(divided.queues), len(divided.exchanges), len(divided.routes)}
    assert sizes == {limits.CHANNEL_PLACES_MAX}
    assert "q0" not in divided.queues and divided.queue("q0").delivered == 0


def test_changes_of_the_exchange_that_wait_for_confirms_are_bounded() -> None:
    divided = PerObjectCounters()
    count = limits.CONFIRM_CHANGES_MAX + 10
    for number in range(1, count + 1):
        divided.numbered(number, "ab"[number % 2])
    divided.confirmed([Interval(1, count)], count + 1)
    assert sum(counts.confirmed for counts in divided.exchanges.values()) == limits.CONFIRM_CHANGES_MAX
