"""Publishes that differ in their properties: one envelope each, but one way for all of them.

Most clients give every message an id of its own. Such a run cannot share an envelope; it can share
everything else: the rights, the route, the queue's and the journal's attention. A message that needs
more thought (somebody's user id, copies to other keys, a direct reply, a lifetime) takes the ordinary
road by itself, in its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import direct_reply_to
from mirrormq.errors import PreconditionFailed
from mirrormq.queues.message import NEVER, Envelope, Message
from mirrormq.queues.publish_ids import PRODUCER_HEADER, publish_id_of
from mirrormq.wire.content import properties_of
from mirrormq.wire.properties import decode_properties, scan_properties

if TYPE_CHECKING:
    from mirrormq.channels.publishing import Publishing, Target
    from mirrormq.queues.queue_interface import QueueInterface

NOBODY = ("", 0)
"""Where the property flags start in content frames: frame head, class, weight, body size."""


def publish_mixed(publishing: Publishing, publish: bytes, contents: list[bytes]) -> None:
    """Publish messages that have the same basic.publish payload."""
    channel = publishing.channel
    vhost = channel.vhost
    target = publishing.target(publish, vhost.versions())
    queues: tuple[QueueInterface, ...] = ()
    if publishing.transaction is None and not channel.traced and vhost.router.may_remember(target.exchange):
        channel.check_topic(target.exchange, target.routing_key, "write")
        queues = vhost.queues_for(target.exchange, target.routing_key)
    if not queues:
        for content in contents:
            publishing.publish(publish, properties_of(content), [content])
        return
    batch: list[Message] = []
    try:
        _collect(publishing, target, publish, queues, contents, batch)
    finally:
        _append(publishing, queues, batch)


def _collect(
    publishing: Publishing, target: Target, publish: bytes, queues: tuple[QueueInterface, ...],
    contents: list[bytes], batch: list[Message],
) -> None:  # fmt: skip
    """Fill `batch`; it is appended whenever a message needs the ordinary road, or another treatment."""
    exchange, routing_key, mandatory = target.exchange, target.routing_key, target.mandatory
    suffix = b"\x00" + publish[6:-1] + b"\xce"
    kind = (False, False)
    for content in contents:
        properties = properties_of(content)
        producer_ids = None
        try:
            persistent, priority, expiration, headers_at, user_id = scan_properties(properties)
        except PreconditionFailed:  # of its delivery mode; something else may come before that
            publishing.checked(properties)
            raise
        if headers_at >= 0:
            headers = decode_properties(properties, 0).headers or {}
            special = "CC" in headers or "BCC" in headers
            if PRODUCER_HEADER in headers:
                producer_ids = publish_id_of(headers)
        else:
            special = False
        if (
            special
            or expiration is not None
            or user_id is not None
            or direct_reply_to.QUEUE_NAME_BYTES in properties
        ):
            _append(publishing, queues, batch)
            publishing.publish(publish, properties, [content])
            continue
        if (persistent, producer_ids is not None) != kind:
            _append(publishing, queues, batch)
            kind = (persistent, producer_ids is not None)
        envelope = Envelope(
            publish, exchange, routing_key, mandatory, properties, persistent, priority, None, suffix
        )
        envelope.producer_ids = producer_ids
        batch.append(Message(envelope, content, NEVER, int.from_bytes(content[11:19], "big")))


def _append(publishing: Publishing, queues: tuple[QueueInterface, ...], batch: list[Message]) -> None:
    """Append what has been collected, and start anew."""
    if not batch:
        return
    if publishing.gate.closed and batch[0].envelope.producer_ids is not None:
        messages = list(batch)
        batch.clear()
        for message in messages:
            envelope = message.envelope
            publishing.publish(envelope.publish, envelope.properties, [message.frames])
        return
    count = len(batch)
    first, publisher = 0, None
    if publishing.confirms is not None:
        first, publisher = publishing.confirms.take_numbers(count, len(queues)), publishing.channel
    publishing.count(batch[0].envelope.exchange, count, queues, first)
    with publishing.channel.vhost.dead_letters_later():
        for queue in queues[1:]:
            copies = [Message(m.envelope, m.frames, NEVER, m.body_size) for m in batch]
            publishing.append(queue, copies, publisher, first)
        publishing.append(queues[0], list(batch), publisher, first)
    if batch[0].envelope.producer_ids is not None and publishing.confirms is not None:
        refused = publishing.confirms.lowest_refused(first)
        if refused is not None:
            publishing.gate.close(batch[refused - first].envelope.producer_ids or NOBODY)
    batch.clear()
