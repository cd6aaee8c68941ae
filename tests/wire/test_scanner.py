"""Scanner: for every split of a stream into reads the broker stores the same messages and sends the same
bytes."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirrormq.broker.broker import Broker
from mirrormq.connections.scanner import Scanner
from mirrormq.queues.queue import Queue
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import HEADER, METHOD
from mirrormq.wire.methods import encode_basic_ack
from tests.hostile.in_process import Wire, make_broker
from tests.hostile.raw import publish_bytes
from tests.hostile.streams import SENSIBLE, mutated


def fed(stream: bytes, piece: int) -> tuple[bytes, dict[str, list[bytes]], dict[str, int]]:
    """Return the connection's output and the queues' contents after the stream arrived in pieces."""
    broker = make_broker()
    wire = Wire(broker).log_in()
    wire.feed(stream, piece)
    wire.turn()
    return wire.said, contents(broker), unacked(broker)


def contents(broker: Broker) -> dict[str, list[bytes]]:
    return {name: [m.frames for m in queue.backing.fetch(1000)] for name, queue in local_queues(broker)}


def local_queues(broker: Broker) -> Iterator[tuple[str, Queue]]:
    for name, queue in broker.vhosts["/"].queues.items():
        assert isinstance(queue, Queue)
        yield name, queue


def unacked(broker: Broker) -> dict[str, int]:
    return {name: queue.backing.unacked_count for name, queue in local_queues(broker)}


@settings(max_examples=150)
@given(SENSIBLE, st.integers(1, 64))
def test_any_cut_of_a_stream_is_the_same_stream(stream: bytes, piece: int) -> None:
    whole = fed(stream, 0)
    assert fed(stream, 1) == whole
    assert fed(stream, piece) == whole


def test_a_wrong_end_of_a_header_is_an_error_before_the_body_arrives() -> None:
    publish = publish_bytes("k", b"body")
    header_and_method = publish[: publish.index(b"\x03\x00\x01")]
    wrong = header_and_method[:-1] + b"\x01"
    for piece in (0, 1, 5):
        assert b"FRAME_ERROR" in fed(wrong, piece)[0]
        assert b"FRAME_ERROR" not in fed(header_and_method, piece)[0]


UNREADABLE = b"\x00\x3c\x00\x28\x00\x00\tno name of nine octets"


@settings(max_examples=150)
@given(mutated(), st.integers(1, 64))
@example(method_frame(2, UNREADABLE) + publish_bytes("k", b"", channel=2)[-22:], 7)
@example(method_frame(1, UNREADABLE) + b"\x02\x00\x01\x00\x00\x10\x00" + b"\x00<" + bytes(14), 1)
def test_a_damaged_stream_is_the_same_in_any_pieces(stream: bytes, piece: int) -> None:
    whole = fed(stream, 0)
    assert fed(stream, 1) == whole
    assert fed(stream, piece) == whole


class Recorder:
    """Sink that records its calls, frame by frame, and is held on demand."""

    def __init__(self, patience: int = 1 << 30) -> None:
        self.frames: list[tuple[int, int, bytes]] = []
        self.runs: list[int] = []
        self.whole = 0
        self.acked: list[int] = []
        self.patience = patience

    @property
    def held(self) -> bool:
        return self.patience <= 0

    def may_publish(self) -> bool:
        return True

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.patience -= 1
        self.frames.append((kind, channel, payload))

    def publishes(self, channel: int, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        self.patience -= 1
        self.runs.append(len(contents))
        self.whole += len(contents)

    def acknowledges(self, channel: int, tags: list[int]) -> None:
        self.patience -= 1
        self.acked += tags

    def publishes_mixed(
        self, channel: int, publishes: list[bytes], contents: list[bytes], header_bytes: int
    ) -> None:
        assert len(publishes) == len(contents)
        assert header_bytes == sum(int.from_bytes(content[3:7], "big") for content in contents)
        self.publishes(channel, publishes[0], b"", contents)

    def publishes_one(self, channel: int, publish: bytes, content: bytes, header_bytes: int) -> None:
        assert header_bytes == int.from_bytes(content[3:7], "big")
        self.publishes(channel, publish, b"", [content])


def scanner(sink: Recorder, max_run: int = 2048) -> Scanner:
    made = Scanner(sink, 131072, max_run)
    made.open(131072, 0)
    return made


def test_equal_publishes_come_as_one_run() -> None:
    sink = Recorder()
    scanner(sink).feed(publish_bytes("k", b"abc") * 10 + publish_bytes("other", b"abc") * 5)
    assert sink.runs == [10, 5]
    assert sink.frames == []


def test_unlike_publishes_come_together_and_alike_ones_by_themselves() -> None:
    sink = Recorder()
    unlike = [publish_bytes(f"k{number}", b"abc") for number in range(5)]
    scanner(sink).feed(b"".join(unlike) + publish_bytes("k", b"abc") * 9 + b"".join(unlike))
    assert sink.runs == [6, 8, 5], "a run begins with the second of its kind"
    assert sink.frames == []


@pytest.mark.parametrize("size", [1, 8, 21, 1000])
def test_a_body_that_does_not_follow_its_header_is_not_waited_for(size: int) -> None:
    """Put another frame in place of the body: it is passed on at once, for every split."""
    sink = Recorder()
    reading = scanner(sink)
    whole = publish_bytes("k", b"x" * 60_000)
    flow = method_frame(1, b"\x00\x14\x00\x14\x01")
    stream = whole[: -60_000 - 8] + flow
    for at in range(0, len(stream), size):
        reading.feed(stream[at : at + size])
    assert [kind for kind, _, _ in sink.frames] == [METHOD, HEADER, METHOD]


def test_acknowledgements_come_as_one_run_up_to_one_that_is_not_single() -> None:
    sink = Recorder()
    acks = [method_frame(1, encode_basic_ack(tag, tag == 4)) for tag in range(1, 7)]
    scanner(sink).feed(b"".join(acks))
    assert sink.acked == [1, 2, 3, 5, 6]
    assert [payload[11] for _, _, payload in sink.frames] == [4]


def test_a_frame_of_another_kind_is_no_acknowledgement() -> None:
    sink = Recorder()
    ack = method_frame(1, encode_basic_ack(7, False))
    scanner(sink).feed(b"\x79" + ack[1:])
    assert sink.acked == []
    assert [kind for kind, _, _ in sink.frames] == [0x79]


def test_a_run_is_cut_at_its_limit() -> None:
    sink = Recorder()
    scanner(sink, max_run=4).feed(publish_bytes("k", b"abc") * 10)
    assert sink.runs == [4, 4, 2]


def test_a_sink_that_is_held_gets_no_more_and_nothing_is_lost() -> None:
    sink = Recorder(patience=3)
    reading = scanner(sink)
    frames = [method_frame(1, b"\x00\x14\x00\x14" + bytes((number,))) for number in range(8)]
    reading.feed(b"".join(frames))
    assert [payload[-1] for _, _, payload in sink.frames] == [0, 1, 2]
    assert reading.buffered_bytes == 5 * len(frames[0])
    sink.patience = 100
    reading.feed(b"")
    assert [payload[-1] for _, _, payload in sink.frames] == list(range(8))
    assert reading.buffered_bytes == 0


def test_the_beginning_of_a_frame_does_not_hold_the_memory_of_all_before_it() -> None:
    reading = scanner(Recorder())
    tracemalloc.start()
    try:
        reading.feed(publish_bytes("k", b"x" * 100) * 10_000 + b"\x01\x00")
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reading.buffered_bytes == 2
    assert held_bytes < 10_000


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 2]),
            st.sampled_from(["q", "other"]),
            st.sampled_from([0, 1, 60, 100, 3000]),
        )
    ),
    st.lists(st.sampled_from([1, 7, 50, 100, 1000, 5000]), min_size=1),
)
def test_publishes_of_all_sizes_come_out_however_unevenly_they_come_in(
    messages: list[tuple[int, str, int]], pieces: list[int]
) -> None:
    """Check that no complete publish waits for bytes that never arrive."""
    stream = b"".join(publish_bytes(key, b"x" * size, channel=channel) for channel, key, size in messages)
    recorder = Recorder()
    reading = scanner(recorder)
    at = 0
    for piece in itertools.cycle(pieces):
        if at >= len(stream):
            break
        reading.feed(stream[at : at + piece])
        at += piece
    assert reading.buffered_bytes == 0
    in_pieces = sum(kind == METHOD for kind, _, _ in recorder.frames)
    assert recorder.whole + in_pieces == len(messages)
