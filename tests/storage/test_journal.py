"""Journal without faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.queues.envelope import make_envelope as real_envelope
from mirrormq.queues.message import Message
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.storage.recovery_report import RecoveryReport
from mirrormq.wire.content import build_frames
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.storage.support import (
    DIRECTORY,
    content_frames,
    disk,
    journal,
    make_envelope,
    message,
    messages,
    opened,
    state,
)


def test_a_message_is_loaded_as_it_was_appended() -> None:
    store = opened(disk()).queue(7)
    original = message(3, "three", publish=b"where to", expires_at=1234)
    store.append([original], durable=True)
    [loaded] = store.load([3])
    assert (loaded.frames, loaded.sequence, loaded.expires_at) == (original.frames, 3, 1234)
    assert loaded.position == original.position > 0
    assert (loaded.envelope.publish, loaded.properties) == (b"where to", b"\x10\x00\x02")


def test_one_message_is_written_and_acknowledged_like_several() -> None:
    """Bytes on disk and what a restart finds are the same, also across segments and with shared contents."""
    large = content_frames(b"x" * 5000)
    disks = disk(), disk()
    for on, one_by_one in zip(disks, (True, False), strict=True):
        made = opened(on, segment_bytes=16 * 1024)
        for number in range(1, 301):
            sent = message(number, "text", expires_at=number)
            if number % 100 < 2:
                sent.frames, sent.body_size = large, 5000
            for store in (made.queue(1), made.queue(2)):
                copy = Message(sent.envelope, sent.frames, sent.expires_at)
                copy.sequence = number
                if one_by_one:
                    store.append_one(copy)
                else:
                    store.append([copy], durable=True)
                assert copy.position
                if number % 3 == 0 and one_by_one:
                    store.acknowledge_one(number)
                elif number % 3 == 0:
                    store.acknowledge([copy])
            if number % 7 == 0:
                made.flush(sync=True)
        made.flush(sync=True)
    first, second = opened(disks[0], 16 * 1024), opened(disks[1], 16 * 1024)
    assert first.queue(1).recovered() == second.queue(1).recovered() != []
    assert state(first) == state(second)
    assert [(s.live, s.total, s.used_bytes) for s in first.segments.by_number.values()] == [
        (s.live, s.total, s.used_bytes) for s in second.segments.by_number.values()
    ]


def test_loaded_messages_share_equal_envelopes_and_only_those() -> None:
    store = opened(disk()).queue(7)
    store.append([*messages(1, 3), message(4, publish=b"elsewhere"), message(5)], durable=True)
    envelopes = [loaded.envelope for loaded in store.load(range(1, 6))]
    assert envelopes[0] is envelopes[1] is envelopes[2] is envelopes[4]
    assert envelopes[3].publish == b"elsewhere"


def test_messages_come_in_the_order_asked_for_from_buffer_and_from_several_segments() -> None:
    made = opened(disk(), segment_bytes=600)
    store = made.queue(1)
    for first in (1, 11, 21):
        store.append(messages(first, 10), durable=True)
        made.flush(sync=first == 1)
    store.append(messages(31, 10), durable=True)
    assert len(made.segments.by_number) > 3
    wanted = [40, 2, 17, 1, 33, 18, 39]
    assert [loaded.sequence for loaded in store.load(wanted)] == wanted
    assert [loaded.frames for loaded in store.load(range(1, 41))] == [m.frames for m in messages(1, 40)]


def test_a_message_larger_than_a_segment_and_than_a_read_window_is_stored() -> None:
    on = disk()
    made = opened(on)
    large = Message(message(2).envelope, content_frames(b"large" * 500_000))
    large.sequence = 2
    made.queue(1).append([message(1), large, message(3)], durable=True)
    assert made.queue(1).load([1, 2, 3])[1].frames == large.frames
    made.flush(sync=True)
    assert opened(on).queue(1).load([2])[0].frames == large.frames


def test_counts_and_body_bytes_follow_append_acknowledge_and_forget() -> None:
    store = opened(disk()).queue(1)
    stored = messages(1, 10, "x" * 8)
    store.append(stored, durable=True)
    assert (store.live_count, store.live_bytes) == (10, 9 * 10 + 11)
    store.acknowledge([stored[0], stored[4], message(77)])
    store.forget([10, 9, 9])
    assert (store.live_count, store.live_bytes) == (6, 60)
    assert list(store.recovered()) == [2, 3, 4, 6, 7, 8]
    with pytest.raises(KeyError, match="message 5 of queue 1 is not stored"):
        store.load([4, 5])


def test_only_durable_messages_make_a_sync_necessary() -> None:
    made = opened(disk())
    store = made.queue(1)
    store.append(messages(1, 2), durable=False)
    assert (made.dirty, made.needs_sync) == (True, False)
    store.append(messages(3, 2), durable=True)
    assert (made.dirty, made.needs_sync) == (True, True)
    made.flush(sync=False)
    assert (made.dirty, made.needs_sync) == (False, True)
    made.flush(sync=True)
    assert (made.dirty, made.needs_sync) == (False, False)
    store.acknowledge(messages_with_position(store, [3]))
    assert (made.dirty, made.needs_sync) == (True, False)


def messages_with_position(store: JournalQueue, sequences: list[int]) -> list[Message]:
    return store.load(sequences)


def test_paged_messages_can_be_loaded_but_are_not_recovered_in_any_way() -> None:
    on = disk()
    made = opened(on)
    store = made.queue(1)
    store.append(messages(1, 4), durable=True)
    store.append(messages(5, 4), durable=False)
    assert [loaded.sequence for loaded in store.load([3, 5, 4, 8])] == [3, 5, 4, 8]
    made.flush(sync=True)
    by_scan = opened(on)
    assert list(by_scan.queue(1).recovered()) == [1, 2, 3, 4]
    made.close()
    by_index = journal(on)
    assert by_index.open().from_index
    assert state(by_index) == state(by_scan)


def test_delivery_marks_and_numbers_survive_even_when_no_message_does() -> None:
    on = disk()
    made = opened(on)
    store = made.queue(1)
    store.append(messages(1, 5), durable=True)
    store.delivered(3)
    store.delivered(2)
    made.flush(sync=True)
    assert opened(on).queue(1).delivered_up_to == 3
    store.forget(range(1, 6))
    made.flush(sync=True)
    assert opened(on).queue(1).next_sequence == 6


def test_reserved_numbers_are_not_given_again() -> None:
    on = disk()
    made = opened(on)
    for next_sequence in (2, 100, 5000):
        made.queue(1).reserve(next_sequence)
    made.flush(sync=True)
    assert opened(on).queue(1).next_sequence >= 5000


def test_an_erased_queue_is_gone_and_its_id_can_start_again() -> None:
    on = disk()
    made = opened(on)
    made.queue(1).append(messages(1, 5), durable=True)
    made.queue(2).append(messages(1, 1), durable=True)
    erased = made.queue(1)
    erased.erase()
    with pytest.raises(ValueError, match="erased"):
        erased.append(messages(6, 1), durable=True)
    made.queue(1).append(messages(2, 1, "new"), durable=True)
    made.flush(sync=True)
    again = opened(on)
    assert list(again.queue(1).recovered()) == [2]
    assert again.forget_unknown([1]) == [2]
    again.flush(sync=True)
    assert set(opened(on).queues) == {1}


def test_a_number_stored_again_after_its_acknowledgement_is_kept() -> None:
    on = disk()
    made = opened(on)
    store = made.queue(1)
    store.append(messages(1, 5), durable=True)
    store.forget([2, 3, 4])
    store.append([message(3, "again")], durable=True)
    made.flush(sync=True)
    for found in (store, opened(on).queue(1)):
        assert list(found.recovered()) == [1, 3, 5]
        assert found.load([3])[0].frames == message(3, "again").frames


def test_the_index_of_a_clean_shutdown_equals_a_scan(tmp_path: Path) -> None:
    directory = str(tmp_path / "journal")

    def start() -> tuple[Journal, RecoveryReport]:
        started = Journal(LocalDisk(), directory, make_envelope, segment_bytes=2000)
        return started, started.open()

    made, _ = start()
    for queue_id in (1, 2, 3):
        store = made.queue(queue_id)
        store.append(messages(1, 300), durable=True)
        store.forget(range(1, 300, queue_id))
        store.delivered(200)
    made.queue(3).erase()
    made.close()
    by_index, report = start()
    assert report.from_index and report.records == 0
    (tmp_path / "journal" / "clean-shutdown.index").unlink()
    by_scan, report = start()
    assert not report.from_index and report.records > 0 and not report.dropped
    assert state(by_index) == state(by_scan)
    for number, segment in by_scan.segments.by_number.items():
        other = by_index.segments.by_number[number]
        for name in ("live", "total", "stored", "acknowledged", "used_bytes", "salt"):
            assert getattr(segment, name) == getattr(other, name), name


def test_an_index_is_used_until_something_is_written_and_ignored_when_it_does_not_fit() -> None:
    on = disk()
    made = opened(on)
    made.queue(1).append(messages(1, 5), durable=True)
    made.close()
    for _ in range(2):
        unchanged = journal(on)
        assert unchanged.open().from_index
        unchanged.close()
    changed = opened(on)
    changed.queue(1).append(messages(6, 1), durable=True)
    changed.flush(sync=True)
    assert "clean-shutdown.index" not in on.list("data/journal")
    changed.close()
    name = on.list("data/journal")[0]
    on.open(f"data/journal/{name}").truncate(100)
    report = journal(on).open()
    assert not report.from_index and "bytes, not" in (report.index_ignored or "")


def test_a_closed_journal_refuses_work() -> None:
    made = opened(disk())
    made.close()
    with pytest.raises(Exception, match="closed"):
        made.queue(1).append(messages(1, 1), durable=True)


def test_loaded_messages_with_own_ids_share_an_envelope() -> None:
    """Properties that do not concern the broker must not cost an envelope for each message."""
    store = Journal(disk(), DIRECTORY, real_envelope)
    store.open()
    payload = encode_basic_publish("amq.topic", "key")

    def stored(sequence: int, properties: BasicProperties) -> Message:
        encoded = encode_properties(properties)
        made = Message(real_envelope(payload, encoded), build_frames(1, encoded, b"body", 0))
        made.sequence = sequence
        return made

    plain = [stored(n, BasicProperties(delivery_mode=2, message_id=f"id {n}")) for n in (1, 2, 3)]
    urgent = stored(4, BasicProperties(delivery_mode=2, message_id="id 4", priority=7))
    expiring = stored(5, BasicProperties(delivery_mode=2, message_id="id 5", expiration="60000"))
    store.queue(7).append([*plain, urgent, expiring], durable=True)
    loaded = store.queue(7).load([1, 2, 3, 4, 5])
    assert len({id(message.envelope) for message in loaded[:3]}) == 1
    assert [message.envelope.priority for message in loaded] == [0, 0, 0, 7, 0]
    assert [message.envelope.expiration_ms for message in loaded] == [None, None, None, None, 60_000]
    assert [message.properties for message in loaded] == [
        encode_properties(BasicProperties(delivery_mode=2, message_id=f"id {n}")) for n in (1, 2, 3)
    ] + [urgent.properties, expiring.properties]
    assert loaded[0].envelope.deliver_suffix == plain[0].envelope.deliver_suffix
