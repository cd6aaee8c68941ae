"""Journal format 2: ingestion times, contents that several queues share, and data of release 0.1."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.clock import Clock
from mirrormq.queues.envelope import make_envelope as real_envelope
from mirrormq.queues.message import Message
from mirrormq.storage.column_reader import GatheredColumns
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.segment_header import read_segment_header
from mirrormq.wire.content import body_of
from tests.storage.support import (
    DIRECTORY,
    PROPERTIES,
    content_frames,
    disk,
    journal,
    make_envelope,
    messages,
    opened,
)

SEGMENT = f"{DIRECTORY}/0000000001.journal"
BODY = b"large " * 1000
RELEASE_0_1 = Path(__file__).parent.parent / "durability" / "data"


def at(made: Journal, now_ms: int) -> Journal:
    made.clock = Clock(now_ms)
    return made


def ingested(made: Journal, queue_id: int = 1) -> list[tuple[int, int]]:
    """Return the ingestion times, read in both ways."""
    store = made.queue(queue_id)
    numbers = list(store.held())
    rows = GatheredColumns()
    store.gather(numbers, rows)
    found = [(message.sequence, message.ingested_ms) for message in store.load(numbers)]
    assert list(zip(rows.sequences, rows.ingested_ms, strict=True)) == found
    return found


def test_a_message_keeps_the_time_at_which_it_was_first_appended() -> None:
    on = disk()
    made = at(opened(on, 700), 1000)
    first = messages(1, 3)
    made.queue(1).append(first, durable=True)
    assert [message.ingested_ms for message in first] == [1000] * 3
    at(made, 2000).queue(1).append(messages(4, 1), durable=False)
    made.queue(1).append_contents(5, [b"publish"], [content_frames(b"5:")], 0, durable=True)
    made.queue(1).append_contents(6, [b"publish"], [content_frames(b"6:")], 0, durable=True, ingested_ms=[77])
    made.queue(1).append(made.queue(1).load([1]), durable=True)
    expected = [(1, 1000), (2, 1000), (3, 1000), (4, 2000), (5, 2000), (6, 77)]
    assert ingested(made) == expected
    made.flush(sync=True)
    on.crash()
    assert ingested(opened(on)) == [row for row in expected if row[0] != 4]


def test_compaction_keeps_ingestion_times() -> None:
    on = disk()
    made = at(opened(on, 700), 1000)
    made.queue(1).append(messages(1, 40), durable=True)
    made.flush(sync=True)
    at(made, 9000).queue(1).forget([number for number in range(1, 41) if number % 9])
    while made.housekeeping(10_000) or made.housekeeping(10_000):
        pass
    assert 1 not in made.segments.by_number
    assert ingested(made) == [(number, 1000) for number in (9, 18, 27, 36)]


def fanned_out(made: Journal, queues: range, body: bytes = BODY, sequence: int = 1) -> bytes:
    frames = content_frames(body)
    for queue_id in queues:
        copy = Message(make_envelope(b"publish %d" % queue_id, PROPERTIES), frames, queue_id)
        copy.sequence = sequence
        made.queue(queue_id).append([copy], durable=True)
    return frames


def contents(made: Journal, queues: range) -> list[tuple[bytes, bytes, int, int]]:
    found = []
    for queue_id in queues:
        store = made.queue(queue_id)
        numbers = list(store.recovered())
        rows = GatheredColumns()
        store.gather(numbers, rows)
        for message, body in zip(store.load(numbers), rows.bodies, strict=True):
            assert body_of(message.frames) == body and store.size_of(message.sequence) == len(body)
            found.append((message.envelope.publish, message.frames, message.expires_at, message.body_size))
    return found


def test_a_large_content_that_several_queues_append_is_written_once() -> None:
    on = disk()
    made = opened(on, 100_000)
    queues = range(1, 11)
    frames = fanned_out(made, queues)
    made.flush(sync=True)
    [segment] = made.segments.by_number.values()
    assert segment.used_bytes < len(frames) + 2500
    expected = [(b"publish %d" % queue_id, frames, queue_id, len(BODY)) for queue_id in queues]
    assert contents(made, queues) == expected
    made.queue(1).forget([1])
    made.flush(sync=True)
    on.crash()
    assert contents(opened(on), range(2, 11)) == expected[1:], (
        "the record that has the content is acknowledged"
    )


def test_a_small_content_and_one_of_a_later_write_are_written_for_each_queue() -> None:
    made = opened(disk(), 100_000)
    fanned_out(made, range(1, 3), b"small")
    made.flush(sync=True)
    small = made.segments.by_number[1].used_bytes
    frames = fanned_out(made, range(3, 4))
    made.flush(sync=True)
    copy = Message(make_envelope(b"publish", PROPERTIES), frames)
    copy.sequence = 1
    made.queue(4).append([copy], durable=True)
    made.flush(sync=True)
    assert small < 600
    assert made.segments.by_number[1].used_bytes > small + 2 * len(frames)
    assert [row[1] for row in contents(made, range(3, 5))] == [frames, frames]


def test_a_content_is_written_again_in_a_new_segment() -> None:
    on = disk()
    made = opened(on, 7000)
    frames = fanned_out(made, range(1, 40))
    made.flush(sync=True)
    assert len(made.segments.by_number) > 1
    assert [row[1] for row in contents(made, range(1, 40))] == [frames] * 39
    on.crash()
    assert [row[1] for row in contents(opened(on), range(1, 40))] == [frames] * 39


def test_compaction_copies_a_shared_content_once() -> None:
    on = disk()
    made = opened(on, 20_000)
    queues = range(1, 21)
    frames = fanned_out(made, queues)
    made.queue(50).append(messages(1, 150), durable=True)
    made.queue(50).append(messages(151, 150), durable=True)
    made.flush(sync=True)
    made.queue(50).forget(range(1, 280))
    made.queue(1).forget([1])
    made.flush(sync=True)
    while made.housekeeping(3000) or made.housekeeping(3000):
        pass
    assert 1 not in made.segments.by_number
    assert sum(segment.used_bytes for segment in made.segments.by_number.values()) < len(frames) + 6000
    assert [row[1] for row in contents(made, range(2, 21))] == [frames] * 19
    on.crash()
    again = journal(on)
    assert not again.open().damaged
    assert [row[1] for row in contents(again, range(2, 21))] == [frames] * 19


def test_a_damaged_shared_content_damages_its_messages_and_no_other() -> None:
    on = disk()
    made = opened(on, 100_000)
    made.queue(9).append(messages(1, 1), durable=True)
    fanned_out(made, range(1, 4))
    made.flush(sync=True)
    made.queue(9).append(messages(2, 1), durable=True)
    made.flush(sync=True)  # proves that the write before was synced
    on.flip(SEGMENT, (made.queue(1).table.get(1) & 0xFFFFFFFF) + 900, 3)
    for queue_id in (1, 2, 3):
        with pytest.raises(DamagedMessages):
            made.queue(queue_id).load([1])
    on.kill()
    again = journal(on)
    report = again.open()
    assert report.damaged and report.damaged_messages == [(2, 1), (3, 1)]
    assert list(again.queue(2).recovered()) == [1], "it is known, so that a mirror can be asked for it"
    with pytest.raises(DamagedMessages):
        again.queue(2).load([1])
    assert len(again.queue(9).load([1, 2])) == 2


# -- data of release 0.1 (revision af107d7) -----------------------------------------------------


@pytest.fixture(params=["clean", "killed"])
def release_0_1(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Return a journal that a node of release 0.1 left when it was stopped, or killed."""
    with tarfile.open(RELEASE_0_1 / f"release-0.1-{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path)
    return lambda: Journal(
        LocalDisk(), str(tmp_path / "data" / "journal"), real_envelope, segment_bytes=20_000
    )


def bodies(made: Journal) -> dict[int, list[bytes]]:
    return {
        queue_id: [body_of(message.frames) for message in store.load(store.recovered())]
        for queue_id, store in made.queues.items()
        if queue_id < 1 << 30 and store.live_count
    }


def work() -> list[bytes]:
    """Return the bodies left after a workload: of the first 30 messages 12 were delivered, and every third
    of those acknowledged."""
    first = [b"work %d" % n for n in range(30) if n not in (0, 3, 6, 9)]
    second = [b"work %d" % n for n in range(31, 40)]
    return [*first, *second, b"x" * 5000, *(b"work %d" % n for n in range(41, 45))]


def test_a_journal_of_release_0_1_is_upgraded(release_0_1: Callable[[], Journal]) -> None:
    made = release_0_1()
    report = made.open()
    assert report.upgraded and not report.created and not report.damaged and not report.from_index
    assert report.generation == 1 and len(report.identity) == 32
    expected = sorted([work(), [b"numbered %d" % n for n in range(1, 8)], [b"expiring 0"]])
    assert sorted(bodies(made).values()) == expected
    by_body = {found[0]: queue_id for queue_id, found in bodies(made).items()}
    numbered, working = by_body[b"numbered 1"], by_body[b"work 1"]
    assert made.queue(numbered).producer_ids() == {"x-producer:p1:": 7}
    assert made.queue(working).delivered_up_to == 12
    assert made.queue(working).next_sequence > 45
    [expiring] = made.queue(by_body[b"expiring 0"]).load([1])
    assert expiring.expires_at > 0 and expiring.ingested_ms == 0
    made.close()
    again = release_0_1()
    report = again.open()
    assert report.from_index and not report.upgraded and not report.damaged
    assert (report.identity, report.generation) == (made.identity, 2)
    assert sorted(bodies(again).values()) == expected


def test_compaction_turns_an_upgraded_segment_into_format_2(release_0_1: Callable[[], Journal]) -> None:
    made = release_0_1()
    made.open()
    before = bodies(made)
    before_id = next(iter(before))
    [old] = made.segments.by_number
    assert made.segments.by_number[old].format == 1
    store = made.queue(before_id)
    made.queue(99).append(store.load(store.recovered()[-1:]), durable=True)
    made.flush(sync=True)
    made.segments.by_number[old].total *= 10
    while made.housekeeping(50_000) or made.housekeeping(50_000):
        pass
    assert old not in made.segments.by_number
    assert {queue_id: found for queue_id, found in bodies(made).items() if queue_id != 99} == before
    for number in made.segments.by_number:
        header = read_segment_header(made.segments.file(number).read(200, 0))
        assert header is not None and header.format == 2 and header.identity.hex() == made.identity
    made.flush(sync=True)
    again = release_0_1()
    assert not again.open().damaged
    assert {queue_id: found for queue_id, found in bodies(again).items() if queue_id != 99} == before


def test_a_damaged_record_of_release_0_1_is_damage(tmp_path: Path) -> None:
    with tarfile.open(RELEASE_0_1 / "release-0.1-clean.tar.xz") as archive:
        archive.extractall(tmp_path)
    [segment] = (tmp_path / "data" / "journal").glob("*.journal")
    content = bytearray(segment.read_bytes())
    content[content.index(b"work 20")] ^= 1
    segment.write_bytes(content)
    made = Journal(LocalDisk(), str(segment.parent), real_envelope)
    report = made.open()
    assert report.upgraded and report.damaged and len(report.dropped) == 1
