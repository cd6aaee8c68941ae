"""Content frames: built, parsed, moved between channels, split for smaller frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame as pamqp_frame
from pamqp.header import ContentHeader

from mirrormq.queues.message import Envelope, Message
from mirrormq.wire import content
from mirrormq.wire.content import body_of, build_frames, properties_of, rechannel, reframe, with_properties
from mirrormq.wire.methods import encode_queue_purge_ok
from mirrormq.wire.properties import BasicProperties, encode_properties

PROPERTIES = encode_properties(BasicProperties(content_type="text/plain", delivery_mode=2))

channels = st.integers(1, 65_535)
bodies = st.binary(max_size=300)
frame_maxima = st.sampled_from([0, 9, 10, 30, 64, 4096])


def split(frames: bytes) -> list[tuple[int, int, bytes]]:
    """Return every frame as (kind, channel, payload), by a second, slow parser."""
    found = []
    while frames:
        size = int.from_bytes(frames[3:7], "big")
        assert frames[7 + size] == 206
        found.append((frames[0], int.from_bytes(frames[1:3], "big"), frames[7 : 7 + size]))
        frames = frames[8 + size :]
    return found


@given(channels, bodies, frame_maxima)
def test_built_frames_can_be_split(channel: int, body: bytes, frame_max: int) -> None:
    frames = build_frames(channel, PROPERTIES, body, frame_max)
    (header, *pieces) = split(frames)
    assert header == (2, channel, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + PROPERTIES)
    assert b"".join(payload for _, _, payload in pieces) == body
    assert {(kind, number) for kind, number, _ in pieces} <= {(3, channel)}
    assert all(payload and (not frame_max or len(payload) + 8 <= frame_max) for _, _, payload in pieces)
    assert body_of(frames) == body
    assert properties_of(frames) == PROPERTIES


@given(channels, channels, bodies, frame_maxima)
def test_only_the_channel_changes(old: int, new: int, body: bytes, frame_max: int) -> None:
    frames = build_frames(old, PROPERTIES, body, frame_max)
    assert rechannel(frames, new) == build_frames(new, PROPERTIES, body, frame_max)


@given(channels, bodies, frame_maxima, frame_maxima)
def test_reframing_cuts_what_is_too_large_and_joins_nothing(
    channel: int, body: bytes, old_max: int, new_max: int
) -> None:
    frames = build_frames(1, PROPERTIES, body, old_max)
    (_, *before), (header, *after) = split(frames), split(reframe(frames, channel, new_max))
    assert header == split(rechannel(frames, channel))[0]
    assert b"".join(payload for _, _, payload in after) == body
    assert {number for _, number, _ in after} <= {channel}
    if new_max:
        assert all(len(payload) + 8 <= new_max for _, _, payload in after)
    if new_max == 0 or all(len(payload) + 8 <= new_max for _, _, payload in before):
        assert [payload for _, _, payload in after] == [payload for _, _, payload in before]
    assert len(after) >= len(before)


@given(channels, bodies, frame_maxima)
def test_new_properties_leave_the_body_alone(channel: int, body: bytes, frame_max: int) -> None:
    other = encode_properties(BasicProperties(expiration="5", user_id="guest"))
    changed = with_properties(build_frames(channel, PROPERTIES, body, frame_max), other)
    assert changed == build_frames(channel, other, body, frame_max)


def test_frames_that_are_on_the_channel_already_are_not_copied() -> None:
    frames = build_frames(7, PROPERTIES, b"body", 4096)
    assert rechannel(frames, 7) is frames


def test_the_layout_is_the_one_messages_have() -> None:
    envelope = Envelope(b"", "", "", False, PROPERTIES, True, 0, None, b"")
    message = Message(envelope, build_frames(3, PROPERTIES, b"x" * 77, 40))
    assert message.body_size == 77


def test_pamqp_reads_our_frames() -> None:
    frames = build_frames(5, PROPERTIES, b"hello", 4096)
    size, channel, header = pamqp_frame.unmarshal(frames)
    assert (channel, type(header)) == (5, ContentHeader)
    assert isinstance(header, ContentHeader)
    assert (header.body_size, header.properties.content_type) == (5, "text/plain")
    _, channel, body = pamqp_frame.unmarshal(frames[size:])
    assert (channel, getattr(body, "value", None)) == (5, b"hello")


@pytest.mark.parametrize("channel", [0, 1, 65_535])
def test_a_method_frame(channel: int) -> None:
    payload = encode_queue_purge_ok(9)
    assert split(content.method_frame(channel, payload)) == [(1, channel, payload)]
    _, seen_channel, seen = pamqp_frame.unmarshal(content.method_frame(channel, payload))
    assert (seen_channel, getattr(seen, "message_count", None)) == (channel, 9)
