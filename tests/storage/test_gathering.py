"""Column reader: messages read as columns equal messages loaded one by one, for every record shape."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.queues.message import Message
from mirrormq.storage import column_reader, journal_records, segment_header
from mirrormq.storage.column_reader import GatheredColumns
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.journal_limits import SHAPES_MAX
from mirrormq.storage.queue_store import JournalQueue
from mirrormq.wire.content import body_of, properties_of
from tests.storage.support import DIRECTORY, PROPERTIES, content_frames, disk, make_envelope, messages, opened

SEGMENT = f"{DIRECTORY}/0000000001.journal"
Row = tuple[int, bytes, bytes, bytes]


def gathered(store: JournalQueue, sequences: list[int]) -> list[Row]:
    found = GatheredColumns()
    store.gather(sequences, found)
    common = [run for run in found.runs for _ in range(run[2])]
    columns = zip(found.sequences, common, found.bodies, strict=True)
    return [(sequence, run[0], run[1], body) for sequence, run, body in columns]


def loaded(store: JournalQueue, sequences: list[int]) -> list[Row]:
    try:
        found = store.load(sequences)
    except DamagedMessages as damage:
        found = store.load([sequence for sequence in sequences if sequence not in damage.sequences])
    return [(m.sequence, m.envelope.publish, properties_of(m.frames), body_of(m.frames)) for m in found]


def message(
    sequence: int,
    body: bytes,
    properties: bytes = PROPERTIES,
    publish: bytes = b"publish",
    expires_at: int = 0,
    frame_size: int = 4096,
) -> Message:
    made = Message(
        make_envelope(publish, properties), content_frames(body, properties, frame_size), expires_at
    )
    made.sequence = sequence
    return made


content = st.fixed_dictionaries(
    {
        "body": st.sampled_from([b"", b"a", b"b", b"ab", b"c" * 30, b"d" * 3000]),
        "properties": st.sampled_from([PROPERTIES, b"\x10\x00\x01", b"\x00\x00"]),
        "publish": st.sampled_from([b"publish", b"PUBLISH", b"longer publish"]),
        "expires_at": st.integers(0, 2),
        "frame_size": st.sampled_from([4096, 15]),
    }
)
kind = st.sampled_from(["alone", "another queue's", "paged", "gap"])


@settings(max_examples=300)
@given(st.lists(st.tuples(kind, content), min_size=1, max_size=30), st.data())
def test_gathered_columns_equal_loaded_messages(written: list[tuple[str, dict[str, Any]]], data: Any) -> None:
    made = opened(disk(), segment_bytes=data.draw(st.sampled_from([500, 4096, 1 << 20])))
    store, other = made.queue(1), made.queue(2)
    for number, (how, what) in enumerate(written, 1):
        if how == "another queue's":
            other.append([message(number, **what)], durable=True)
        elif how != "gap":
            store.append([message(number, **what)], durable=how == "alone")
    stored = list(store.held())
    wanted = data.draw(st.lists(st.sampled_from(stored), unique=True)) if stored else []
    for sequences in (stored, sorted(wanted)):
        assert gathered(store, sequences) == loaded(store, sequences)


def test_a_flipped_bit_costs_its_own_message_only() -> None:
    made = opened(disk(), segment_bytes=100_000)
    made.queue(1).append(messages(1, 9, "same"), durable=True)
    made.flush(sync=True)
    size = made.writer.tail.used_bytes if made.writer.tail else 0
    whole = gathered(made.queue(1), list(range(1, 10)))
    assert [row[0] for row in whole] == list(range(1, 10))
    for offset in range(segment_header.DATA_AT, size - journal_records.WRITTEN_BYTES):
        on = disk()
        made = opened(on, segment_bytes=100_000)
        made.queue(1).append(messages(1, 9, "same"), durable=True)
        made.flush(sync=True)
        on.flip(SEGMENT, offset, offset % 8)
        found = gathered(made.queue(1), list(range(1, 10)))
        assert found == loaded(made.queue(1), list(range(1, 10))), offset
        assert len(found) == 8 and set(found) < set(whole), offset


def test_messages_alike_are_not_taken_apart(monkeypatch: Any) -> None:
    taken_apart = []
    other = column_reader._Window._gather_other_shape

    def counted(window: Any, sequence: int, *rest: Any) -> Any:
        taken_apart.append(sequence)
        return other(window, sequence, *rest)

    monkeypatch.setattr(column_reader._Window, "_gather_other_shape", counted)
    made = opened(disk(), segment_bytes=1 << 20)
    sizes = [1, 7, 7, 100]
    alike = [message(n, b"x" * sizes[n % 4], expires_at=n) for n in range(1, 401)]
    made.queue(1).append(alike, durable=True)
    rows = gathered(made.queue(1), list(range(1, 401)))
    assert [len(row[3]) for row in rows] == [sizes[n % 4] for n in range(1, 401)]
    assert len(taken_apart) == 3, "one of each length"
    gathered(made.queue(1), list(range(1, 401)))
    assert len(taken_apart) == 3, "they are remembered"


def test_more_lengths_than_are_remembered(monkeypatch: Any) -> None:
    made = opened(disk(), segment_bytes=1 << 20)
    count = SHAPES_MAX + 5
    made.queue(1).append([message(n, b"y" * n) for n in range(1, count)], durable=True)
    rows = gathered(made.queue(1), list(range(1, count)))
    assert [len(row[3]) for row in rows] == list(range(1, count))


def test_messages_far_apart_and_messages_moved_by_compaction_are_found() -> None:
    made = opened(disk(), segment_bytes=300_000)
    store = made.queue(1)
    for number in range(1, 41):
        body = b"z" * (100_000 if number % 3 else 10)
        store.append([message(number, body)], durable=True)
    small = [number for number in range(1, 41) if not number % 3]
    assert gathered(store, small) == loaded(store, small)
    store.forget([number for number in range(1, 41) if number % 3 and number < 30])
    made.flush(sync=True)
    while made.housekeeping(1 << 30):
        pass
    left = list(store.held())
    assert gathered(store, left) == loaded(store, left)
