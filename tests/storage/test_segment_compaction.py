"""Segment compaction: disk space is freed, and no acknowledged message comes back."""

from __future__ import annotations

import pytest

from mirrormq.errors import DamageError
from mirrormq.storage.journal import Journal
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.storage.support import disk, journal, messages, opened, state

BUDGET = 700


def settle(made: Journal) -> None:
    """Run housekeeping until there is nothing to do; it checks a segment twice before it compacts it."""
    idle = 0
    while idle < 2:
        idle = 0 if made.housekeeping(BUDGET) else idle + 1


def filled(on: SimulatedDisk, count: int = 200) -> tuple[Journal, JournalQueue]:
    made = opened(on, segment_bytes=1500)
    store = made.queue(1)
    for first in range(1, count, 20):
        store.append(messages(first, 20), durable=True)
        made.flush(sync=True)
    return made, store


def test_segments_of_consumed_messages_are_freed_while_the_queue_is_in_use() -> None:
    made, store = filled(disk())
    before = len(made.segments.by_number)
    store.forget(range(1, 151))
    made.flush(sync=True)
    settle(made)
    assert len(made.segments.by_number) < before / 2
    assert [loaded.sequence for loaded in store.load(range(151, 201))] == list(range(151, 201))


def test_acknowledgements_outlive_their_segment_while_an_older_one_needs_them() -> None:
    on = disk()
    made = opened(on, segment_bytes=1500)
    pinned, busy = made.queue(1), made.queue(2)
    pinned.append(messages(1, 15), durable=True)
    for first in range(1, 200, 10):
        busy.append(messages(first, 10), durable=True)
        if first == 41:
            pinned.forget(range(2, 11))
        if first == 81:
            pinned.forget([12, 13])
        made.flush(sync=True)
    oldest = min(made.segments.by_number)
    busy.forget(range(1, 201))
    made.flush(sync=True)
    freed = made.housekeeping(BUDGET)
    while freed > BUDGET:
        freed = made.housekeeping(0)
    assert oldest in made.segments.by_number
    assert len(made.segments.by_number) < 5
    again = opened(on, segment_bytes=1500)
    assert list(again.queue(1).recovered()) == [1, 11, 14, 15]
    assert list(again.queue(2).recovered()) == []
    assert again.queue(2).next_sequence == 201


def test_an_erased_queue_stays_erased_when_the_segment_that_says_so_is_freed() -> None:
    on = disk()
    made = opened(on, segment_bytes=1500)
    backing_queue, doomed, busy = made.queue(1), made.queue(2), made.queue(3)
    backing_queue.append(messages(1, 12), durable=True)
    doomed.append(messages(1, 3), durable=True)
    busy.append(messages(1, 40), durable=True)
    doomed.erase()
    busy.append(messages(41, 40), durable=True)
    busy.forget(range(1, 81))
    made.flush(sync=True)
    while made.housekeeping(0):
        pass
    assert set(opened(on, segment_bytes=1500).queues) == {1, 3}


def used_bytes(made: Journal) -> int:
    return sum(segment.used_bytes for segment in made.segments.by_number.values())


def test_sparse_segments_are_compacted_in_bounded_steps_and_read_the_same() -> None:
    on = disk()
    made, store = filled(on)
    store.append(messages(201, 100), durable=False)
    store.forget([number for number in range(1, 301) if number % 10])
    made.flush(sync=True)
    before = used_bytes(made)
    steps = []
    idle = 0
    while idle < 2:
        steps.append(made.housekeeping(BUDGET))
        idle = 0 if steps[-1] else idle + 1
    assert used_bytes(made) < before / 3
    assert max(steps) <= 4 * 1500
    kept = range(10, 301, 10)
    assert [loaded.sequence for loaded in store.load(kept)] == list(kept)
    durable = list(range(10, 201, 10))
    assert list(opened(on, segment_bytes=1500).queue(1).recovered()) == durable


def test_a_segment_of_several_queues_is_compacted_for_queues_with_messages_left() -> None:
    on = disk()
    made = opened(on, segment_bytes=1500)
    queues = [made.queue(number) for number in (1, 2, 3)]
    for sequence in range(1, 60):
        for queue in queues:
            queue.append(messages(sequence, 1), durable=True)
    queues[0].forget(range(1, 60))
    queues[1].forget(range(2, 60))
    queues[2].forget(range(1, 59))
    made.queue(4).append(messages(1, 30), durable=True)
    made.flush(sync=True)
    settle(made)
    again = opened(on, segment_bytes=1500)
    assert [list(again.queue(number).recovered()) for number in (1, 2, 3)] == [[], [1], [59]]
    assert state(again) == state(made)


def test_a_segment_with_a_damaged_live_message_saves_the_others_and_waits_for_that_one() -> None:
    on = disk()
    made, store = filled(on)
    oldest = min(made.segments.by_number)
    store.forget([number for number in range(1, 201) if number not in (5, 10)])
    made.flush(sync=True)
    position = store.load([5])[0].position
    on.flip(made.segments.path(oldest), (position & 0xFFFFFFFF) + 40, 0)
    settle(made)
    assert made.segments.by_number[oldest].live == 1
    assert store.load([10])[0].position >> 32 > oldest
    with pytest.raises(DamageError):
        store.load([5])
    store.forget([5])
    settle(made)
    assert oldest not in made.segments.by_number


def test_small_files_of_many_restarts_do_not_pile_up() -> None:
    on = disk()
    for run in range(30):
        made = journal(on, segment_bytes=4096)
        made.open()
        made.queue(1).append(messages(run + 1, 1), durable=True)
        made.flush(sync=True)
        settle(made)
        made.close()
    last = opened(on)
    assert list(last.queue(1).recovered()) == list(range(1, 31))
    assert len(last.segments.by_number) <= 3
