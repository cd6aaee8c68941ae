"""Memory use of a queue, and the share of time with an available consumer."""

from __future__ import annotations

import pytest

from mirrormq.queues.memory_use import HALF_LIFE_MS, ConsumerUse, MemoryUse


def test_a_queue_whose_consumers_always_have_room_is_wholly_used() -> None:
    use = ConsumerUse(0)
    assert use.share(10_000) == 1.0


def test_the_past_counts_half_after_a_second() -> None:
    use = ConsumerUse(0)
    use.exhausted(0)
    assert use.share(HALF_LIFE_MS) == pytest.approx(0.5)
    assert use.share(2 * HALF_LIFE_MS) == pytest.approx(0.25)


def test_capacity_for_half_of_the_time_is_reported_as_a_half() -> None:
    use = ConsumerUse(0)
    for moment in range(0, 20_000, 20):
        use.available(moment)
        use.exhausted(moment + 10)
    assert use.share(20_000) == pytest.approx(0.5, abs=0.02)


def test_saying_the_same_again_changes_nothing() -> None:
    use = ConsumerUse(0)
    use.exhausted(500)
    before = use.share(1_000)
    use.exhausted(700)
    assert use.share(1_000) == before


def test_parts_of_a_queue_add_up_and_the_first_has_the_head() -> None:
    high = MemoryUse(ready_ram=1, ram_bytes=10, head_properties=b"high")
    low = MemoryUse(ready_ram=2, unacked_ram=3, ram_bytes=50, paged_count=4, head_properties=b"low")
    both = sum([high, low], MemoryUse())
    assert (both.ready_ram, both.ram_count, both.ram_bytes, both.paged_count) == (3, 6, 60, 4)
    assert both.head_properties == b"high"
