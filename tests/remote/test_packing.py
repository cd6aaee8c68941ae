"""Messages that travel between nodes arrive as they were, whatever they share."""

from __future__ import annotations

from mirrormq.channels.routes import Route
from mirrormq.queues.message import NEVER, Message
from mirrormq.remote.publish_codec import Envelopes, pack, pack_deliveries, unpack, unpack_deliveries
from mirrormq.wire.content import build_frames
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties


def unlike(keys: str, *, priorities: tuple[int, ...] = (0,)) -> list[Message]:
    """Messages with ids of their own, as a channel publishes them: one route, and envelopes, for each key."""
    routes = {key: Route(encode_basic_publish("e", key), "e", key, mandatory=False) for key in keys}
    made = []
    for number, key in enumerate(keys):
        priority = priorities[number % len(priorities)]
        values = BasicProperties(delivery_mode=2, priority=priority, message_id=str(number))
        frames = build_frames(1, encode_properties(values), b"body %d" % number, 0)
        message = Message(routes[key].envelope(priority << 1 | 1), frames, NEVER)
        message.sequence = number + 1
        made.append(message)
    return made


def shown(messages: list[Message]) -> list[tuple[bytes, bytes, bytes, bool, int]]:
    return [
        (m.envelope.publish, m.properties, m.frames, m.envelope.persistent, m.envelope.priority)
        for m in messages
    ]


def test_unlike_messages_with_shared_envelopes_are_published_as_they_were() -> None:
    for keys in ("a", "aaaa", "aba", "abba", "aabbab"):
        sent = unlike(keys, priorities=(0, 3))
        envelopes = Envelopes()
        arrived = [message for run in pack(sent) for message in unpack(run, envelopes)]
        assert shown(arrived) == shown(sent)


def test_unlike_messages_with_shared_envelopes_are_delivered_as_they_were() -> None:
    for keys in ("a", "aaaa", "aba", "abba"):
        sent = unlike(keys)
        envelopes = Envelopes()
        arrived = [m for run in pack_deliveries(sent) for m in unpack_deliveries(run, envelopes)]
        assert [(m.envelope.publish, m.frames, m.sequence) for m in arrived] == [
            (m.envelope.publish, m.frames, m.sequence) for m in sent
        ]


def test_messages_of_one_key_travel_in_one_run() -> None:
    assert len(pack(unlike("aaaa"))) == 1
    assert len(pack_deliveries(unlike("aaaa"))) == 1
