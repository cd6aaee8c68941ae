"""Large bodies from the shared read buffer: the same messages as through the normal path."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.errors import AmqpError, UnexpectedFrame
from mirrormq.wire import large_bodies
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.frames import BODY
from mirrormq.wire.large_bodies import LARGE_BYTES, large_run
from mirrormq.wire.methods import encode_basic_publish, encode_channel_flow, encode_queue_declare
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.hostile.in_process import Wire, make_broker
from tests.hostile.raw import publish_bytes
from tests.hostile.streams import SENSIBLE, mutated
from tests.wire.test_scanner import Recorder, contents, fed, scanner, unacked

Said = tuple[bytes, dict[str, list[bytes]], dict[str, int]]

BUFFER_SIZES = st.sampled_from([1, 3, 8, 30, 64, 100, 250, 1000])


@pytest.fixture
def all_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_bodies, "LARGE_BYTES", 1)
        yield


class SharedBuffer:
    """Read buffer of a socket. Other octets overwrite it afterwards, as if another client had sent
    something."""

    def __init__(self, size: int) -> None:
        self._memory = bytearray(size)

    def pieces(self, stream: bytes) -> Iterator[memoryview]:
        size = len(self._memory)
        for at in range(0, len(stream), size):
            piece = stream[at : at + size]
            self._memory[: len(piece)] = piece
            yield memoryview(self._memory)[: len(piece)]
            self._memory[:] = b"\xce\x01\x00\x01" * (size // 4) + bytes(size % 4)


def fed_from_shared(stream: bytes, size: int) -> Said:
    broker = make_broker()
    wire = Wire(broker).log_in()
    for view in SharedBuffer(size).pieces(stream):
        wire.connection.receive(view)
    wire.turn()
    return wire.said, contents(broker), unacked(broker)


def every_stream_is_the_same(stream: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_bodies, "LARGE_BYTES", 1)
        assert fed_from_shared(stream, size) == fed(stream, 0)


@settings(max_examples=200)
@given(SENSIBLE, BUFFER_SIZES)
def test_a_stream_out_of_a_shared_buffer_is_the_same_stream(stream: bytes, size: int) -> None:
    every_stream_is_the_same(stream, size)


@settings(max_examples=200)
@given(mutated(), BUFFER_SIZES)
def test_a_damaged_stream_out_of_a_shared_buffer_is_the_same_stream(stream: bytes, size: int) -> None:
    every_stream_is_the_same(stream, size)


def test_an_unreadable_publish_is_an_error_of_a_closing_channel_however_it_arrives() -> None:
    content = build_frames(1, encode_properties(BasicProperties()), b"", 0)
    readable = encode_basic_publish("", "a")
    unreadable = readable + b"\0"
    failing = method_frame(1, encode_queue_declare("nowhere", passive=True))
    for publishes in ([unreadable], [readable, unreadable], [readable, unreadable, readable]):
        stream = failing + b"".join(method_frame(1, publish) + content for publish in publishes)
        for size in (1, 30, len(stream)):
            every_stream_is_the_same(stream, size)
        assert b"FRAME_ERROR - cannot decode" in fed_from_shared(stream, len(stream))[0]


def view_of(stream: bytes) -> memoryview:
    return memoryview(bytearray(stream))


def test_publishes_that_differ_in_their_bodies_are_one_run() -> None:
    bodies = [b"a" * LARGE_BYTES, b"b" * LARGE_BYTES, b"c" * (3 * LARGE_BYTES), b"d"]
    stream = b"".join(publish_bytes("k", body) for body in bodies)
    found = large_run(view_of(stream + publish_bytes("other", bodies[0])), 0, 100, 1 << 20)
    assert found is not None
    assert [
        content[-len(body) - 1 : -1] for content, body in zip(found.contents, bodies, strict=True)
    ] == bodies
    assert (found.end, found.channel) == (len(stream), 1)
    assert found.publish == encode_basic_publish("", "k")
    assert found.properties == encode_properties(BasicProperties())


@pytest.mark.usefixtures("all_is_large")
def test_every_octet_before_the_body_must_be_what_it_should_be() -> None:
    """Change one octet: the publish is either parsed with its new content, or left to the normal path."""
    whole = publish_bytes("k", b"body")
    for at in range(len(whole) - len(b"body") - 1):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        found = large_run(memoryview(changed), 0, 100, 1 << 20)
        if found is not None:
            again = method_frame(found.channel, found.publish) + found.contents[0]
            assert again == changed
            assert build_frames(found.channel, found.properties, b"body", 0) == found.contents[0]


def test_the_octet_at_the_end_must_be_there() -> None:
    whole = publish_bytes("k", b"x" * LARGE_BYTES)
    assert large_run(view_of(whole), 0, 100, 1 << 20) is not None
    assert large_run(view_of(whole[:-1] + b"\x00"), 0, 100, 1 << 20) is None


@pytest.mark.parametrize("cut", [1, 5, 8, 100, LARGE_BYTES, LARGE_BYTES + 40])
def test_one_that_is_not_complete_is_left_alone(cut: int) -> None:
    whole = publish_bytes("k", b"x" * LARGE_BYTES)
    assert large_run(view_of(whole[:-cut]), 0, 100, 1 << 20) is None


def test_limits_are_kept() -> None:
    stream = view_of(publish_bytes("k", b"x" * LARGE_BYTES) * 3)
    assert large_run(stream, 0, 100, LARGE_BYTES - 1) is None
    found = large_run(stream, 0, 2, LARGE_BYTES)
    assert found is not None and len(found.contents) == 2


def test_small_ones_have_their_own_road() -> None:
    assert large_run(view_of(publish_bytes("k", b"x" * (LARGE_BYTES - 1))), 0, 100, 1 << 20) is None


def test_the_number_of_missing_octets_is_known() -> None:
    sink = Recorder()
    reading = scanner(sink)
    whole = publish_bytes("k", b"x" * LARGE_BYTES)
    reading.feed(whole[:-1000])
    assert reading.awaited_bytes == 1000
    for view in SharedBuffer(4096).pieces(whole[-1000:] + whole[:-7]):
        reading.feed(view)
    assert (sink.runs, reading.awaited_bytes) == ([1], 7)
    reading.feed(whole[-7:])
    assert (sink.runs, reading.awaited_bytes, reading.buffered_bytes) == ([1, 1], 0, 0)


def test_a_read_of_large_messages_ends_where_one_of_them_does() -> None:
    sink = Recorder()
    reading = scanner(sink)
    whole = publish_bytes("k", b"x" * LARGE_BYTES)
    most = 4 * len(whole) + 100
    assert reading.whole_messages_bytes(most) == most
    for view in SharedBuffer(most).pieces(whole * 2 + whole[:-300]):
        reading.feed(view)
    assert reading.whole_messages_bytes(most) == 300 + 3 * len(whole)
    assert reading.whole_messages_bytes(299) == 299
    for view in SharedBuffer(most).pieces(whole[-300:]):
        reading.feed(view)
    assert (sum(sink.runs), reading.awaited_bytes, reading.large_bytes) == (3, 0, len(whole))
    assert reading.whole_messages_bytes(most) == 4 * len(whole)
    assert reading.whole_messages_bytes(len(whole) - 1) == len(whole) - 1


def test_when_something_else_comes_reads_are_not_measured_by_messages_any_more() -> None:
    reading = scanner(Recorder())
    whole, flow = publish_bytes("k", b"x" * LARGE_BYTES), method_frame(1, encode_channel_flow(True))
    for stream, length in ((whole, len(whole)), (whole + flow, len(whole)), (flow, 0)):
        for view in SharedBuffer(len(stream)).pieces(stream):
            reading.feed(view)
        assert reading.large_bytes == length


def test_a_wrong_frame_end_of_a_frame_that_came_in_pieces_is_reported() -> None:
    reading = scanner(Recorder())
    wrong = publish_bytes("k", b"x" * LARGE_BYTES)[:-1] + b"\x00"
    reading.feed(wrong[:1000])
    with pytest.raises(AmqpError, match="invalid_frame_end_marker"):
        reading.feed(view_of(wrong[1000:]))


class Refusing(Recorder):
    """Sink that refuses publishes."""

    def publishes(self, channel: int, publish: bytes, properties: bytes, contents: list[bytes]) -> None:
        super().publishes(channel, publish, properties, contents)
        raise UnexpectedFrame("no publishes")


def test_publishes_after_a_refused_one_are_kept() -> None:
    sink = Refusing()
    reading = scanner(sink)
    stream = publish_bytes("k", b"x" * LARGE_BYTES) + method_frame(1, encode_channel_flow(True))
    with pytest.raises(UnexpectedFrame):
        for view in SharedBuffer(len(stream)).pieces(stream):
            try:
                reading.feed(view)
            finally:
                view[:] = bytes(len(view))
    assert (sink.runs, sink.frames) == ([1], [])
    reading.feed(b"")
    assert sink.frames == [(1, 1, encode_channel_flow(True))]


def test_a_publish_that_came_in_pieces_is_refused_as_well() -> None:
    sink = Refusing()
    reading = scanner(sink)
    whole, flow = publish_bytes("k", b"x" * LARGE_BYTES), method_frame(1, encode_channel_flow(True))
    reading.feed(whole[:1000])
    with pytest.raises(UnexpectedFrame):
        reading.feed(view_of(whole[1000:] + flow))
    assert (sink.runs, sink.frames, reading.buffered_bytes) == ([1], [], len(flow))
    reading.feed(b"")
    assert sink.frames == [(1, 1, encode_channel_flow(True))]


def test_a_sink_that_is_held_gets_no_more_and_nothing_is_lost() -> None:
    sink = Recorder(patience=1)
    reading = scanner(sink, max_run=2)
    flow = method_frame(1, encode_channel_flow(True))
    stream = publish_bytes("k", b"x" * LARGE_BYTES) * 4 + flow
    for view in SharedBuffer(len(stream)).pieces(stream):
        reading.feed(view)
    assert sink.runs == [2]
    assert reading.buffered_bytes == len(stream) - (len(stream) - len(flow)) // 2
    sink.patience = 100
    reading.feed(b"")
    assert sink.runs == [2, 2]
    assert sink.frames == [(1, 1, encode_channel_flow(True))]


def long_publish(body: bytes, frame_max: int) -> bytes:
    """Return a publish whose body takes several frames."""
    content = build_frames(1, encode_properties(BasicProperties()), body, frame_max)
    return method_frame(1, encode_basic_publish("", "q")) + content


@pytest.mark.parametrize("size", [1 << 20, 300_000, 131_072, 100_000])
@pytest.mark.parametrize("frame_max", [131_072, 50_000])
def test_bodies_in_several_frames_are_the_same_messages(size: int, frame_max: int) -> None:
    stream = b"".join(long_publish(bytes([fill]) * (400_000 + fill), frame_max) for fill in (1, 2, 3))
    assert fed_from_shared(stream, size) == fed(stream, 0)


def test_a_body_in_several_frames_is_copied_once_out_of_the_buffer() -> None:
    body = bytes(8 * 131_064 + 64)
    stream = view_of(long_publish(body, 131_072) * 2)
    sink = Recorder()
    reader = scanner(sink)
    tracemalloc.start()
    try:
        reader.feed(stream)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert b"".join(payload for kind, _, payload in sink.frames if kind == BODY) == body * 2
    assert peak_bytes < 2.2 * len(body)
