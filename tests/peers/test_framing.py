"""Framing: messages come out unchanged and in the order of their lane, for every split of the stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.peers import peer_limits
from mirrormq.peers.framing import HEAD, MESSAGE, MORE, FrameReader, kind_of
from mirrormq.peers.lanes import Lanes, MessageTooLargeError, joined

Message = tuple[bytes, bool, bool]
"""Payload, urgent, packed."""

SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from(
        [
            peer_limits.CHUNK_BYTES - 1,
            peer_limits.CHUNK_BYTES,
            peer_limits.CHUNK_BYTES + 1,
            3 * peer_limits.CHUNK_BYTES + 7,
        ]
    ),
)
MESSAGES = st.lists(st.tuples(SIZES, st.booleans(), st.booleans()), max_size=8)


def distinct(sizes: list[tuple[int, bool, bool]]) -> list[Message]:
    return [
        (bytes([number + 1]) * size, urgent, packed) for number, (size, urgent, packed) in enumerate(sizes)
    ]


def stream(messages: list[Message], take: int = 1 << 30) -> bytes:
    lanes = Lanes()
    for payload, urgent, packed in messages:
        lanes.put(payload, urgent=urgent, packed=packed)
    out = b""
    while lanes:
        out += b"".join(joined(lanes.take(take)))
    assert lanes.queued_bytes == 0
    return out


@given(MESSAGES, st.sampled_from([1, 1000, 200_000, 1 << 30]))
def test_each_lane_keeps_its_order_and_urgent_goes_first(
    sizes: list[tuple[int, bool, bool]], take: int
) -> None:
    messages = distinct(sizes)
    got = FrameReader().receive(stream(messages, take))
    wanted = [m for m in messages if m[1]] + [m for m in messages if not m[1]]
    assert got == [(packed, payload) for payload, _, packed in wanted]


@given(MESSAGES, st.lists(st.integers(1, 400_000), max_size=12))
def test_any_cut_of_the_stream_gives_the_same(sizes: list[tuple[int, bool, bool]], cuts: list[int]) -> None:
    whole = stream(distinct(sizes))
    reader, got, rest = FrameReader(), [], whole
    for cut in cuts:
        got += reader.receive(rest[:cut])
        rest = rest[cut:]
    got += reader.receive(rest)
    assert got == FrameReader().receive(whole)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=8), st.binary(max_size=20)
)
def test_byte_by_byte_equals_all_at_once_also_with_garbage(
    sizes: list[tuple[int, bool, bool]], garbage: bytes
) -> None:
    data = stream(distinct(sizes)) + garbage
    slow, fast = FrameReader(), FrameReader()
    got = [message for octet in data for message in slow.receive(bytes([octet]))]
    assert got == fast.receive(data)
    assert slow.failure == fast.failure


def test_a_long_message_byte_by_byte() -> None:
    data = stream([(b"z" * (peer_limits.CHUNK_BYTES + 100), False, True)])
    reader = FrameReader()
    got = [message for octet in data for message in reader.receive(bytes([octet]))]
    assert got == [(True, b"z" * (peer_limits.CHUNK_BYTES + 100))]


def test_an_urgent_message_overtakes_the_rest_of_a_long_one() -> None:
    lanes = Lanes()
    lanes.put(b"x" * (50 * peer_limits.CHUNK_BYTES), urgent=False, packed=False)
    reader = FrameReader()
    assert reader.receive(b"".join(lanes.take(peer_limits.CHUNK_BYTES))) == []
    lanes.put(b"now", urgent=True, packed=False)
    lanes.put(b"later", urgent=False, packed=False)
    lanes.put_heartbeat()
    assert reader.receive(b"".join(lanes.take(peer_limits.CHUNK_BYTES))) == [(False, b"now")]
    rest = [
        message
        for _ in range(60)
        for message in reader.receive(b"".join(lanes.take(peer_limits.CHUNK_BYTES)))
    ]
    assert [len(payload) for _, payload in rest] == [50 * peer_limits.CHUNK_BYTES, 5]


def test_one_take_is_bounded() -> None:
    lanes = Lanes()
    lanes.put(b"x" * (50 * peer_limits.CHUNK_BYTES), urgent=False, packed=False)
    assert sum(map(len, lanes.take(300_000))) <= 300_000 + peer_limits.CHUNK_BYTES + HEAD.size


def test_heartbeats_that_wait_are_one() -> None:
    lanes = Lanes()
    lanes.put_heartbeat()
    lanes.put_heartbeat()
    assert b"".join(lanes.take(100)) == HEAD.pack(0, 0)
    assert not lanes and FrameReader().receive(HEAD.pack(0, 0)) == []


@pytest.mark.parametrize(
    ("frames", "failure"),
    [
        (HEAD.pack(peer_limits.CHUNK_BYTES + 1, MESSAGE), "length"),
        (HEAD.pack(0, 0x40), "kind"),
        (HEAD.pack(1, 0), "kind 0"),
        (HEAD.pack(3, MESSAGE | MORE) + b"abc", "too small"),
        (
            (HEAD.pack(5000, MESSAGE | MORE) + b"x" * 5000)
            + HEAD.pack(1, kind_of(urgent=False, packed=True)) + b"y",
            "half-way",
        ),
        ((HEAD.pack(5000, MESSAGE | MORE) + b"x" * 5000) * 3, "too large"),
    ],
)  # fmt: skip
def test_an_invalid_message_fails_after_the_valid_ones_before_it(frames: bytes, failure: str) -> None:
    reader = FrameReader(message_bytes_max=12_000)
    assert reader.receive(HEAD.pack(2, MESSAGE) + b"ok" + frames) == [(False, b"ok")]
    assert failure in (reader.failure or "")
    assert reader.receive(HEAD.pack(2, MESSAGE) + b"no") == []


def test_a_message_over_the_limit_is_an_error_of_its_sender() -> None:
    lanes = Lanes(message_bytes_max=200_000)
    with pytest.raises(MessageTooLargeError):
        lanes.put(b"x" * 200_001, urgent=False, packed=False)
    assert not lanes
