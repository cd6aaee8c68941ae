"""Percentiles from buckets stay within a bucket's width of the true ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.perf.histogram import SUB_COUNT, Histogram, bucket_of, middle_of

values = st.integers(min_value=0, max_value=10**12)


@given(values)
def test_a_bucket_holds_values_close_to_its_middle(value: int) -> None:
    assert abs(middle_of(bucket_of(value)) - value) <= value / SUB_COUNT


@given(values, values)
def test_buckets_are_in_the_order_of_their_values(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)


@given(st.lists(values, min_size=1), st.sampled_from([50.0, 95.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_that_of_the_sorted_list(observed: list[int], percent: float) -> None:
    histogram = Histogram()
    for value in observed:
        histogram.add(value)
    rank = max(1, -(-len(observed) * percent // 100))
    true = sorted(observed)[int(rank) - 1]
    assert abs(histogram.percentile(percent) - true) <= true / SUB_COUNT
    assert histogram.maximum == max(observed)


@given(st.lists(values), st.lists(values))
def test_merged_histograms_equal_one_that_saw_everything(left: list[int], right: list[int]) -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    for value in left:
        one.add(value)
        both.add(value)
    for value in right:
        other.add(value)
        both.add(value)
    one.merge(other)
    assert (one.counts, one.total, one.maximum) == (both.counts, both.total, both.maximum)
