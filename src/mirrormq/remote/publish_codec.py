"""Codec between messages and runs: common parts are sent once, and contents are not parsed."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import NEVER, Envelope, Message
from mirrormq.queues.publish_ids import publish_ids_in
from mirrormq.remote.remote_messages import DeliveredRun, RemoteRun

HEADER_AT = 3
BODY_SIZE_AT = 11
PROPERTIES_AT = 19
"""Offsets in content frames: size of the header frame, size of the body, property flags."""


def properties_of(content: bytes) -> bytes:
    """Return the properties in a message's content."""
    return content[PROPERTIES_AT : 7 + int.from_bytes(content[HEADER_AT:7], "big")]


class Envelopes:
    """Factory of envelopes with a cache of one: successive publishes usually have the same envelope."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Envelope | None = None

    def get(self, publish: bytes, properties: bytes) -> Envelope:
        """Return the envelope of messages with this payload and these properties."""
        last = self._last
        if last is None or last.properties != properties or last.publish != publish:
            last = self._last = make_envelope(publish, properties)
        return last

    def each(
        self, publish: bytes, contents: list[bytes], persistent: bool, priorities: list[int]
    ) -> list[Envelope]:
        """Return an envelope for each message of a run whose properties differ. The run carries all that a
        queue needs, so the properties are not parsed."""
        like = self._last
        if like is None or like.publish != publish:
            like = self._last = make_envelope(publish, properties_of(contents[0]))
        exchange, key, mandatory, suffix = (
            like.exchange,
            like.routing_key,
            like.mandatory,
            like.deliver_suffix,
        )
        return [
            Envelope(
                publish, exchange, key, mandatory, properties_of(content), persistent, priority, None, suffix
            )
            for content, priority in zip(contents, priorities or [0] * len(contents), strict=True)
        ]


def pack(messages: Sequence[Message]) -> list[RemoteRun]:
    """Pack messages to publish into runs. A queue treats the messages of a run alike. All or none of the
    messages have been published before."""
    envelope = messages[0].envelope
    for message in messages:
        if message.envelope is not envelope:
            break
    else:
        if envelope.properties is not None:
            return [_shared(envelope, messages)]
    runs: list[RemoteRun] = []
    start = 0
    for end in range(1, len(messages) + 1):
        if end == len(messages) or not _alike(messages[end].envelope, messages[start].envelope):
            runs.append(_mixed(messages[start:end]))
            start = end
    return runs


def _shared(envelope: Envelope, messages: Sequence[Message]) -> RemoteRun:
    contents = [message.frames for message in messages]
    return RemoteRun(
        envelope.publish, messages[0].properties, contents, envelope.hidden_keys,
        redelivered=messages[0].redelivered, producer_ids=envelope.producer_ids is not None,
    )  # fmt: skip


def _mixed(messages: Sequence[Message]) -> RemoteRun:
    envelope = messages[0].envelope
    if len(messages) == 1:
        return _shared(envelope, messages)
    priorities = [message.envelope.priority for message in messages]
    contents = [message.frames for message in messages]
    return RemoteRun(
        envelope.publish, None, contents, (), envelope.persistent, priorities if any(priorities) else [],
        messages[0].redelivered, envelope.producer_ids is not None,
    )  # fmt: skip


def _alike(one: Envelope, other: Envelope) -> bool:
    """Return whether both envelopes fit into one run with different properties."""
    return (
        one.publish == other.publish
        and one.persistent is other.persistent
        and one.expiration_ms is None is other.expiration_ms
        and (one.producer_ids is None) is (other.producer_ids is None)
        and not one.hidden_keys
        and not other.hidden_keys
    )


def unpack(run: RemoteRun, envelopes: Envelopes) -> list[Message]:
    """Return the messages of a run for a queue."""
    size = int.from_bytes
    contents = run.contents
    if run.properties is None:
        each = envelopes.each(run.publish, contents, run.persistent, run.priorities)
        messages = [
            Message(envelope, c, NEVER, size(c[BODY_SIZE_AT:PROPERTIES_AT], "big"))
            for envelope, c in zip(each, contents, strict=True)
        ]
    else:
        envelope = envelopes.get(run.publish, run.properties)
        if run.hidden_keys or run.producer_ids:
            envelope = make_envelope(run.publish, run.properties)
            envelope.hidden_keys = run.hidden_keys
        messages = [Message(envelope, c, NEVER, size(c[BODY_SIZE_AT:PROPERTIES_AT], "big")) for c in contents]
    if run.redelivered:
        for message in messages:
            message.redelivered = True
    if run.producer_ids:
        for message in messages:
            message.envelope.identify(publish_ids_in(message.properties))
    return messages


def pack_deliveries(messages: Sequence[Message]) -> list[DeliveredRun]:
    """Pack messages for a consumer into runs."""
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
    """Return the messages of a run for a consumer, without the fields that only a queue needs."""
    messages: list[Message] = []
    redelivered, size, contents = run.redelivered, int.from_bytes, run.contents
    if run.properties is None:
        each = envelopes.each(run.publish, contents, False, [])
    else:
        each = [envelopes.get(run.publish, run.properties)] * len(contents)
    for envelope, content, sequence in zip(each, contents, run.sequences, strict=True):
        message = Message(envelope, content, NEVER, size(content[BODY_SIZE_AT:PROPERTIES_AT], "big"))
        message.sequence = sequence
        message.redelivered = redelivered
        messages.append(message)
    return messages
