"""Identity, generation and manifest: an absent, foreign, missing or damaged part of a journal is reported."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.storage import journal_records, manifest, segment_header
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_limits import JournalLimits
from mirrormq.storage.recovery_report import RecoveryReport
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.storage.support import DIRECTORY, disk, journal, messages, opened

MANIFEST = f"{DIRECTORY}/{manifest.NAME}"
SEGMENT_BYTES = 700


def path(number: int) -> str:
    return f"{DIRECTORY}/{number:010d}.journal"


def several_segments(seed: int = 1, *, clean: bool = False) -> tuple[SimulatedDisk, list[int]]:
    """Make a journal of several synced segments. Return the disk and the numbers of the segments."""
    on = disk(seed)
    made = opened(on, SEGMENT_BYTES)
    for first in range(1, 40, 4):
        made.queue(1).append(messages(first, 4), durable=True)
        made.flush(sync=True)
    numbers = list(made.segments.by_number)
    assert len(numbers) > 4
    if clean:
        made.close()
    return on, numbers


def reopened(on: SimulatedDisk) -> tuple[Journal, RecoveryReport]:
    made = journal(on, SEGMENT_BYTES)
    return made, made.open()


def test_a_new_directory_gets_an_identity_that_stays_and_a_generation_that_grows() -> None:
    on = disk()
    made, report = reopened(on)
    assert report.created and not report.damaged and report.generation == made.generation == 1
    assert len(report.identity) == 32 and report.identity == made.identity
    for generation in (2, 3):
        on.crash()
        again, report = reopened(on)
        assert not report.created and not report.damaged
        assert (again.identity, again.generation) == (made.identity, generation)
    again.queue(1).append(messages(1, 1), durable=True)
    again.close()
    _, report = reopened(on)
    assert report.from_index and (report.identity, report.generation) == (made.identity, 4)


def test_two_journals_have_two_identities() -> None:
    assert opened(disk(1)).identity != opened(disk(2)).identity


@pytest.mark.parametrize("clean", [True, False])
def test_an_emptied_directory_is_a_new_journal(clean: bool) -> None:
    on, _ = several_segments(clean=clean)
    before = on.open(MANIFEST).read(1000, 0)
    for name in on.list(DIRECTORY):
        on.remove(f"{DIRECTORY}/{name}")
    made, report = reopened(on)
    assert report.created and not report.damaged
    assert bytes.fromhex(made.identity) not in before


@pytest.mark.parametrize("clean", [True, False])
def test_any_segment_that_is_missing_is_reported_until_the_node_has_dealt_with_it(clean: bool) -> None:
    for place in range(len(several_segments(clean=clean)[1])):
        on, numbers = several_segments(clean=clean)
        on.remove(path(numbers[place]))
        _, report = reopened(on)
        assert report.damaged and report.damage_proven and not report.created and not report.from_index
        assert [(item.path, item.reason) for item in report.dropped] == [
            (path(numbers[place]), "the segment is missing")
        ]
        on.crash()
        made, report = reopened(on)
        assert report.damaged, "the node may have died before it could tell anybody"
        assert "the segment is missing" in report.dropped[0].reason
        made.clear_damage()
        on.crash()
        _, report = reopened(on)
        assert not report.damaged and not report.dropped


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_of_another_journal_is_set_aside_and_reported(clean: bool) -> None:
    for place in (0, 2, -1):
        on, numbers = several_segments(clean=clean)
        other, _ = several_segments(7, clean=clean)
        file = other.open(path(numbers[place]))
        content = file.read(file.size(), 0)
        on.remove(path(numbers[place]))
        on.create(path(numbers[place])).write(content, 0)
        made, report = reopened(on)
        assert report.damaged and not report.from_index
        assert "another journal" in report.dropped[0].reason
        assert numbers[place] not in made.segments.by_number
        assert f"{numbers[place]:010d}.journal.foreign" in on.list(DIRECTORY)


def test_an_added_segment_of_another_journal_is_set_aside_and_reported() -> None:
    on, numbers = several_segments()
    other, _ = several_segments(7)
    content = other.open(path(1)).read(5000, 0)
    on.create(path(numbers[-1] + 1)).write(content, 0)
    made, report = reopened(on)
    assert report.damaged and list(made.segments.by_number) == numbers
    assert list(made.queue(1).recovered()) == list(range(1, 41))


def test_a_freed_segment_that_comes_back_is_removed_without_a_word() -> None:
    on, numbers = several_segments()
    freed = on.open(path(numbers[0])).read(5000, 0)
    made, _ = reopened(on)
    made.queue(1).forget(list(range(1, 30)))
    while made.housekeeping(10_000):
        pass
    assert path(numbers[0]).rpartition("/")[2] not in on.list(DIRECTORY)
    on.create(path(numbers[0])).write(freed, 0)
    made, report = reopened(on)
    assert not report.damaged and not report.dropped
    assert list(made.queue(1).recovered()) == list(range(30, 41))
    assert path(numbers[0]).rpartition("/")[2] not in on.list(DIRECTORY)


def test_a_missing_manifest_is_damage_and_the_identity_stays() -> None:
    on, _ = several_segments()
    before, _ = reopened(on)
    on.remove(MANIFEST)
    made, report = reopened(on)
    assert report.damaged and made.identity == before.identity and not report.created
    assert made.generation >= 2
    assert list(made.queue(1).recovered()) == list(range(1, 41))


def test_a_flipped_bit_anywhere_in_the_manifest_loses_no_message() -> None:
    size = several_segments()[0].open(MANIFEST).size()
    for offset in range(size):
        on, _ = several_segments()
        on.flip(MANIFEST, offset, offset % 8)
        made, _ = reopened(on)
        assert list(made.queue(1).recovered()) == list(range(1, 41)), offset


def test_a_sealed_segment_that_became_shorter_or_longer_is_damage() -> None:
    for size in (-1, -200, 3):
        on, numbers = several_segments()
        file = on.open(path(numbers[1]))
        file.truncate(file.size() + size)
        _, report = reopened(on)
        assert report.damaged and report.damage_proven, size


def test_the_manifest_is_replaced_before_it_grows_long() -> None:
    on = disk()
    made = opened(on, SEGMENT_BYTES, JournalLimits(manifest_entries_max=5))
    sizes = []
    for first in range(1, 400, 4):
        made.queue(1).append(messages(first, 4), durable=True)
        made.queue(1).forget(list(range(first, first + 4)))
        made.flush(sync=True)
        made.housekeeping(10_000)
        sizes.append(on.open(MANIFEST).size())
    assert max(sizes) < 1500
    on.crash()
    made, report = reopened(on)
    assert not report.damaged and len(report.dropped) <= 1


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_garbled_byte_among_synced_records_is_always_damage(seed: int, place: float, bit: int) -> None:
    choice = random.Random(seed)
    on = disk(seed)
    made = opened(on, SEGMENT_BYTES)
    next_ = 1
    for _ in range(choice.randrange(1, 8)):
        count = choice.randrange(1, 12)
        made.queue(choice.randrange(1, 3)).append(
            messages(next_, count, "x" * choice.randrange(90)), durable=True
        )
        next_ += count
        made.queue(1).forget(list(range(1, next_, choice.randrange(2, 9))))
        made.flush(sync=True)
    on.kill()
    last = made.segments.last_number
    synced = [
        (segment.number, offset)
        for segment in made.segments.by_number.values()
        for offset in range(segment_header.DATA_AT, segment.used_bytes)
    ]
    number, offset = synced[int(place * len(synced))]
    on.flip(path(number), offset, bit)
    _, report = reopened(on)
    if number == last and offset >= made.segments.by_number[last].used_bytes - journal_records.WRITTEN_BYTES:
        assert report.dropped and not report.damaged, "the end of the last write holds nothing that is lost"
        return
    assert report.damaged, (number, offset)
    [dropped] = report.dropped
    assert dropped.path == path(number) and dropped.offset <= offset < dropped.offset + dropped.length


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.floats(0, 1, exclude_max=True), dirt=st.binary(max_size=20))
def test_a_torn_tail_is_no_damage(seed: int, cut: float, dirt: bytes) -> None:
    choice = random.Random(seed)
    on = disk(seed)
    made = opened(on, SEGMENT_BYTES)
    made.queue(1).append(messages(1, choice.randrange(1, 30)), durable=True)
    made.flush(sync=True)
    tail = made.writer.tail
    assert tail is not None
    number, start = tail.number, tail.used_bytes
    made.queue(1).append(messages(100, choice.randrange(1, 5)), durable=True)
    made.flush(sync=False)
    assert made.writer.tail is tail or made.segments.last_number > number
    if made.segments.last_number > number:
        number, start = made.segments.last_number, segment_header.DATA_AT
    end = made.segments.by_number[number].used_bytes
    at = start + int(cut * (end - start))
    file = on.open(path(number))
    size = file.size()
    file.write(dirt + bytes(max(0, size - at - len(dirt))), at)
    on.kill()
    made, report = reopened(on)
    assert not report.damaged and all(item.reason == "torn by a crash" for item in report.dropped)
    assert list(made.queue(1).recovered())[:1] == [1]
