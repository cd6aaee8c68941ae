"""Flipped bits, full disks, failing syncs: damage is reported and never delivered, failures are final."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from mirrormq.errors import DamageError
from mirrormq.storage import journal_records, segment_header
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import DamagedMessages, JournalFailed
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.storage.support import DIRECTORY, content_frames, disk, journal, message, messages, opened

SEGMENT = f"{DIRECTORY}/0000000001.journal"


def small_journal(seed: int = 1) -> tuple[SimulatedDisk, int]:
    """Return a journal with two queues and acknowledgements; everything is synced, without a clean
    shutdown."""
    on = disk(seed)
    made = opened(on, segment_bytes=100_000)
    made.queue(1).append(messages(1, 6), durable=True)
    made.queue(2).append(messages(1, 4), durable=True)
    made.queue(1).append(messages(7, 1), durable=True)
    made.queue(1).forget([2, 3])
    made.queue(2).delivered(2)
    made.flush(sync=True)
    made.writer.seal()
    return on, made.segments.by_number[1].used_bytes


def contents(made: Journal) -> dict[tuple[int, int], bytes]:
    return {
        (queue_id, loaded.sequence): loaded.frames
        for queue_id, store in made.queues.items()
        for loaded in store.load(store.recovered())
    }


def test_a_flipped_bit_anywhere_costs_at_most_its_own_record_and_is_reported() -> None:
    on, size = small_journal()
    undamaged = contents(opened(on))
    written = {(1, number): message(number).frames for number in range(1, 7)} | undamaged
    for offset in range(size):
        on, _ = small_journal()
        on.flip(SEGMENT, offset, offset % 8)
        made = journal(on)
        report = made.open()
        found = contents(made)
        assert all(written[key] == frames for key, frames in found.items()), offset
        missing = set(undamaged) - set(found)
        assert len(missing) <= 1, offset
        if offset >= segment_header.DATA_AT:
            assert len(report.dropped) == 1, offset
            [dropped] = report.dropped
            assert dropped.path == SEGMENT
            assert dropped.offset <= offset < dropped.offset + dropped.length
        else:
            assert found == undamaged and not report.dropped


def test_the_next_record_is_found_behind_several_damaged_ones() -> None:
    on, _ = small_journal()
    made = opened(on)
    for sequence in (4, 5):
        position = made.queue(1).load([sequence])[0].position & 0xFFFFFFFF
        on.flip(SEGMENT, position, 7)
        on.flip(SEGMENT, position + 3, 1)
    again = journal(on)
    report = again.open()
    assert list(again.queue(1).recovered()) == [1, 6, 7]
    assert sum(dropped.length for dropped in report.dropped) > 100


def test_a_record_hidden_in_a_message_body_is_not_believed() -> None:
    on = disk()
    made = opened(on, segment_bytes=100_000)
    checksum = journal_records.checksum_named(journal_records.PREFERRED_CHECKSUM)
    assert checksum is not None
    head = journal_records.MESSAGE_HEAD.pack(
        journal_records.MESSAGE, journal_records.DURABLE, 0, 1, 1, 99, 0, 0
    )
    forged = journal_records.sealed(head + b"p" + content_frames(b"forged"), checksum, 0)
    carrier = message(1)
    carrier.frames = content_frames(b"cover" + forged + b"cover")
    made.queue(1).append([carrier, message(2)], durable=True)
    made.flush(sync=True)
    on.flip(SEGMENT, segment_header.DATA_AT + 3, 5)
    again = journal(on)
    assert len(again.open().dropped) == 1
    assert list(again.queue(1).recovered()) == [2]


def test_damage_after_opening_is_named_and_the_rest_can_still_be_loaded() -> None:
    on, _ = small_journal()
    store = opened(on).queue(1)
    on.flip(SEGMENT, (store.load([5])[0].position & 0xFFFFFFFF) + 30, 2)
    with pytest.raises(DamagedMessages, match="queue 1") as caught:
        store.load([1, 4, 5, 6])
    assert isinstance(caught.value, DamageError)
    assert caught.value.sequences == [5]
    assert [loaded.sequence for loaded in store.load([1, 4, 6])] == [1, 4, 6]


def test_a_damaged_index_is_ignored_and_the_scan_finds_everything() -> None:
    on, _ = small_journal()
    expected = contents(opened(on))
    opened(on).close()
    index = f"{DIRECTORY}/clean-shutdown.index"
    size = on.open(index).size()
    for offset in range(0, size, max(1, size // 200)):
        on.flip(index, offset, offset % 8)
        made = journal(on)
        report = made.open()
        assert not report.from_index and report.index_ignored
        assert contents(made) == expected
        made.close()


def test_a_segment_whose_header_is_gone_is_set_aside_not_deleted() -> None:
    on, _ = small_journal()
    for offset in (3, 3 + segment_header.DATA_AT // 2):
        on.flip(SEGMENT, offset, 1)
    made = journal(on)
    [dropped] = made.open().dropped
    assert "header is damaged" in dropped.reason
    assert on.list(DIRECTORY) == ["0000000001.journal.damaged", "manifest"]
    made.queue(1).append(messages(1, 1), durable=True)
    made.flush(sync=True)
    assert on.list(DIRECTORY) == ["0000000001.journal.damaged", "0000000002.journal", "manifest"]


def refuses_everything(made: Journal) -> None:
    store = made.queue(1)
    attempts: list[Callable[[], object]] = [
        lambda: made.flush(sync=True),
        lambda: made.flush(sync=False),
        lambda: store.append(messages(50, 1), durable=True),
        lambda: store.forget([1]),
        lambda: store.load([1]),
        lambda: store.erase(),
        lambda: made.housekeeping(1000),
        lambda: made.close(),
    ]
    for attempt in attempts:
        with pytest.raises(JournalFailed):
            attempt()
    assert made.writer.failure


@pytest.mark.parametrize("fault", ["write", "sync", "full"])
def test_after_a_failed_write_or_sync_every_call_fails_and_a_restart_finds_what_was_synced(
    fault: str,
) -> None:
    on = disk()
    made = opened(on, segment_bytes=2000)
    made.queue(1).append(messages(1, 5), durable=True)
    made.flush(sync=True)
    if fault == "write":
        on.write_error = errno.ENOSPC
    elif fault == "sync":
        on.sync_error = errno.EIO
    else:
        on.capacity_bytes = 2500
    with pytest.raises(JournalFailed):
        made.queue(1).append(messages(6, 100), durable=True)
        made.flush(sync=True)
    on.write_error = on.sync_error = on.capacity_bytes = None
    refuses_everything(made)
    on.crash()
    recovered = list(opened(on).queue(1).recovered())
    assert recovered[:5] == [1, 2, 3, 4, 5]


def test_a_failed_sync_of_housekeeping_removes_nothing() -> None:
    on = disk()
    made = opened(on, segment_bytes=1000)
    made.queue(1).append(messages(1, 60), durable=True)
    made.queue(1).forget(range(1, 50))
    made.flush(sync=True)
    before = on.list(DIRECTORY)
    made.queue(1).delivered(55)
    on.sync_error = errno.EIO
    with pytest.raises(JournalFailed):
        made.housekeeping(1000)
    assert on.list(DIRECTORY) == before
    on.sync_error = None
    refuses_everything(made)
