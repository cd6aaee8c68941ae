"""Messages as runs and back: what they share is sent once, and what they are made of is not looked at."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.queues.envelope import make_envelope, parse_expiration
from mirrormq.queues.message import NEVER, Envelope, Message
from mirrormq.remote.messages import DeliveredRun, Run
from mirrormq.wire.properties import scan_properties

HEADER_AT = 3
BODY_SIZE_AT = 11
PROPERTIES_AT = 19
"""Where things are in content frames: the header frame's size, the body's, the property flags."""


def properties_of(content: bytes) -> bytes:
    """A message's properties, from its content."""
    return content[PROPERTIES_AT : 7 + int.from_bytes(content[HEADER_AT:7], "big")]


class Envelopes:
    """Makes envelopes, and remembers the last one: publishers repeat themselves."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Envelope | None = None

    def get(self, publish: bytes, properties: bytes) -> Envelope:
        """The envelope of messages with this payload and these properties."""
        last = self._last
        if last is None or last.publish != publish:
            last = self._last = make_envelope(publish, properties)
        elif last.properties != properties:
            persistent, priority, expiration, _, _ = scan_properties(properties)
            last = self._last = Envelope(
                publish, last.exchange, last.routing_key, last.mandatory, properties, persistent, priority,
                None if expiration is None else parse_expiration(expiration), last.deliver_suffix,
            )  # fmt: skip
        return last


def pack(messages: Sequence[Message]) -> list[Run]:
    """Messages to publish. Each run is treated alike by a queue, as the whole was by its publisher."""
    envelope = messages[0].envelope
    for message in messages:
        if message.envelope is not envelope:
            break
    else:
        contents = [message.frames for message in messages]
        return [Run(envelope.publish, envelope.properties, contents, envelope.hidden_keys)]
    runs: list[Run] = []
    start = 0
    for end in range(1, len(messages) + 1):
        if end == len(messages) or not _alike(messages[end].envelope, messages[start].envelope):
            runs.append(Run(messages[start].envelope.publish, None, [m.frames for m in messages[start:end]]))
            start = end
    return runs


def _alike(one: Envelope, other: Envelope) -> bool:
    return one.publish == other.publish and not one.hidden_keys and not other.hidden_keys


def unpack(run: Run, envelopes: Envelopes) -> list[Message]:
    """The messages of a run, as a queue takes them."""
    size = int.from_bytes
    if run.properties is None:
        get, publish = envelopes.get, run.publish
        return [
            Message(get(publish, properties_of(c)), c, NEVER, size(c[BODY_SIZE_AT:PROPERTIES_AT], "big"))
            for c in run.contents
        ]
    envelope = envelopes.get(run.publish, run.properties)
    if run.hidden_keys != envelope.hidden_keys:
        envelope = make_envelope(run.publish, run.properties)
        envelope.hidden_keys = run.hidden_keys
    return [Message(envelope, c, NEVER, size(c[BODY_SIZE_AT:PROPERTIES_AT], "big")) for c in run.contents]


def pack_deliveries(messages: Sequence[Message]) -> list[DeliveredRun]:
    """Messages for a consumer."""
    envelope, redelivered = messages[0].envelope, messages[0].redelivered
    for message in messages:
        if message.envelope is not envelope or message.redelivered is not redelivered:
            return _pack_mixed(messages)
    return [_delivered(messages, envelope.properties)]


def _delivered(messages: Sequence[Message], properties: bytes | None) -> DeliveredRun:
    first = messages[0]
    return DeliveredRun(
        first.envelope.publish,
        properties,
        [message.frames for message in messages],
        [message.sequence for message in messages],
        first.redelivered,
    )


def _pack_mixed(messages: Sequence[Message]) -> list[DeliveredRun]:
    runs: list[DeliveredRun] = []
    start = 0
    for end in range(1, len(messages) + 1):
        first = messages[start]
        if end < len(messages):
            message = messages[end]
            if (
                message.redelivered is first.redelivered
                and message.envelope.publish == first.envelope.publish
            ):
                continue
        same = messages[start:end]
        shared = all(message.envelope is first.envelope for message in same)
        runs.append(_delivered(same, first.envelope.properties if shared else None))
        start = end
    return runs


def unpack_deliveries(run: DeliveredRun, envelopes: Envelopes) -> list[Message]:
    """The messages of a run, for a consumer to send on."""
    messages: list[Message] = []
    redelivered, size = run.redelivered, int.from_bytes
    shared = None if run.properties is None else envelopes.get(run.publish, run.properties)
    for content, sequence in zip(run.contents, run.sequences, strict=True):
        envelope = shared or envelopes.get(run.publish, properties_of(content))
        message = Message(envelope, content, NEVER, size(content[BODY_SIZE_AT:PROPERTIES_AT], "big"))
        message.sequence = sequence
        message.redelivered = redelivered
        messages.append(message)
    return messages
