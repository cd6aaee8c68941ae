"""Scrubbing finds every damaged record of the sealed segments, and a rewritten message is whole again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.storage.column_reader import GatheredColumns
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.storage.support import DIRECTORY, disk, journal, message, messages, opened
from tests.storage.test_format_2 import fanned_out


def filled(seed: int = 1) -> tuple[SimulatedDisk, Journal]:
    on = disk(seed)
    made = opened(on, 2000)
    made.queue(1).append(messages(1, 60), durable=True)
    made.queue(2).append(messages(1, 20), durable=False)
    made.queue(1).forget([3, 4, 50])
    made.flush(sync=True)
    made.writer.seal()
    made.queue(3).append(messages(1, 1), durable=True)
    made.flush(sync=True)
    return on, made


def scrubbed(made: Journal, step_bytes: int = 300) -> None:
    made.scrubber.start()
    while made.scrubber.step(step_bytes):
        pass
    assert not made.scrubber.progress.running


def path_of(made: Journal, queue_id: int, sequence: int) -> tuple[str, int]:
    store = made.queue(queue_id)
    position = store.table.get(sequence) or store.paged.get(sequence)
    return f"{DIRECTORY}/{position >> 32:010d}.journal", position & 0xFFFFFFFF


def test_a_pass_over_undamaged_segments_reads_all_of_them_and_finds_nothing() -> None:
    _, made = filled()
    sealed = [item for item in made.segments.by_number.values() if item is not made.writer.tail]
    scrubbed(made)
    progress = made.scrubber.progress
    assert progress.segments_done == progress.segments_total == len(sealed) > 3
    assert (
        progress.bytes_done == progress.bytes_total == sum(item.used_bytes - item.data_at for item in sealed)
    )
    assert (progress.passes_total, progress.damaged_spans, made.damage.pending()) == (1, 0, {})


def test_steps_are_bounded() -> None:
    _, made = filled()
    made.scrubber.start()
    made.scrubber.step(1)
    assert made.scrubber.progress.running
    assert made.scrubber.progress.segments_done <= 1
    assert made.scrubber.progress.read_bytes_total <= 2000


@settings(max_examples=80, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), step_bytes=st.integers(1, 5000))
def test_one_flipped_bit_in_a_sealed_segment_is_found(place: float, bit: int, step_bytes: int) -> None:
    on, made = filled()
    offsets = [
        (item.number, offset)
        for item in made.segments.by_number.values()
        if item is not made.writer.tail
        for offset in range(item.data_at, item.used_bytes)
    ]
    number, offset = offsets[int(place * len(offsets))]
    on.flip(f"{DIRECTORY}/{number:010d}.journal", offset, bit)
    scrubbed(made, step_bytes)
    assert made.scrubber.progress.damaged_spans == 1
    lost = set()
    for queue_id in (1, 2):
        try:
            made.queue(queue_id).load(made.queue(queue_id).held())
        except DamagedMessages as damage:
            lost |= {(queue_id, sequence) for sequence in damage.sequences}
    found = {(queue_id, n) for queue_id, numbers in made.damage.pending().items() for n in numbers}
    assert found == lost and len(lost) <= 1


def test_a_rewritten_message_is_whole_and_its_segment_goes() -> None:
    on, made = filled()
    path, at = path_of(made, 1, 20)
    on.garble(path, at + 30, 3)
    scrubbed(made)
    assert made.damage.pending() == {1: [20]} and made.damage.pending_count == 1
    assert not made.queue(1).rewrite(message(20, "another body")), "never another message"
    assert made.queue(1).rewrite(message(20))
    assert made.damage.pending() == {} and made.damage.repaired_total == 1
    assert made.queue(1).load([20])[0].frames == message(20).frames
    made.flush(sync=True)
    while made.housekeeping(5000) or made.housekeeping(5000):
        pass
    assert path.rpartition("/")[2] not in on.list(DIRECTORY)
    on.crash()
    again = journal(on, 2000)
    report = again.open()
    assert not report.damaged and not report.dropped
    assert list(again.queue(1).recovered()) == [n for n in range(1, 61) if n not in (3, 4, 50)]


def test_a_message_that_no_node_can_repair_keeps_its_position_and_is_never_served() -> None:
    on, made = filled()
    path, at = path_of(made, 1, 20)
    on.garble(path, at + 30, 3)
    scrubbed(made)
    while made.housekeeping(5000) or made.housekeeping(5000):
        pass
    assert path_of(made, 1, 20) == (path, at)
    with pytest.raises(DamagedMessages):
        made.queue(1).load([20])
    made.queue(1).forget([20])
    assert made.damage.pending() == {}
    assert not made.queue(1).rewrite(message(20))


def test_damaged_acknowledgements_are_written_again() -> None:
    on = disk()
    made = opened(on, 100_000)
    made.queue(1).append(messages(1, 10), durable=True)
    made.flush(sync=True)
    made.writer.seal()
    made.queue(1).forget([5])
    made.flush(sync=True)
    made.writer.seal()
    made.queue(1).append(messages(11, 1), durable=True)
    made.flush(sync=True)
    on.garble(f"{DIRECTORY}/0000000002.journal", made.segments.by_number[2].data_at + 10, 2)
    scrubbed(made)
    assert made.scrubber.progress.damaged_spans == 1 and not made.damage.pending()
    made.flush(sync=True)
    on.crash()
    assert 5 not in opened(on).queue(1).recovered()


def test_a_damaged_content_is_found_for_every_queue_that_shares_it() -> None:
    on = disk()
    made = opened(on, 100_000)
    fanned_out(made, range(1, 5))
    made.flush(sync=True)
    made.writer.seal()
    path, at = path_of(made, 1, 1)
    on.garble(path, at + 500, 1)
    scrubbed(made)
    assert made.damage.pending() == {1: [1], 2: [1], 3: [1], 4: [1]}


def test_reading_reports_damage_too() -> None:
    on, made = filled()
    for sequence in (20, 30):
        path, at = path_of(made, 1, sequence)
        on.garble(path, at + 30, 3)
    with pytest.raises(DamagedMessages):
        made.queue(1).load([19, 20])
    made.queue(1).gather(list(range(25, 35)), GatheredColumns())
    made.queue(1).gather(list(range(25, 35)), GatheredColumns())
    assert made.damage.pending() == {1: [20, 30]} and made.damage.found_total == 2
