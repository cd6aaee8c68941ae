"""Direct reply-to: answers without a queue.

A client consumes from the pseudo-queue `amq.rabbitmq.reply-to` and publishes requests whose
`reply_to` is that name. Each request leaves with a reply_to that names the channel and its node; whoever
publishes to that name through the default exchange reaches the channel directly, from any node. That does
not count as a route: a mandatory reply is returned as well, as RabbitMQ does it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.errors import PreconditionFailed
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope
from mirrormq.wire import methods
from mirrormq.wire.content import with_properties
from mirrormq.wire.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

QUEUE_NAME = "amq.rabbitmq.reply-to"
QUEUE_NAME_BYTES = QUEUE_NAME.encode()
PREFIX = QUEUE_NAME + "."


class ReplyConsumer:
    """A channel that waits for direct replies."""

    def __init__(self, channel: Channel, tag: str, name: str) -> None:
        self.channel = channel
        self.tag = tag
        self.name = name
        """The reply_to that its requests carry."""

    def deliver(self, envelope: Envelope, contents: list[bytes]) -> None:
        """Hand replies to the client; nothing is kept or acknowledged."""
        channel = self.channel
        for content in contents:
            if channel.connection.reply_bytes > limits.DIRECT_REPLY_BYTES_MAX:
                return
            channel.last_tag += 1
            method = methods.encode_basic_deliver(
                self.tag, channel.last_tag, False, envelope.exchange, envelope.routing_key
            )
            channel.send_content(method, content)


def consume(channel: Channel, method: methods.BasicConsume, tag: str) -> None:
    """basic.consume on the pseudo-queue."""
    if channel.reply_consumer is not None:
        raise PreconditionFailed("reply consumer already set")
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    node = urlsafe_b64encode(channel.broker.settings.name.encode()).rstrip(b"=").decode()
    name = f"{PREFIX}{node}.{channel.broker.unique_name()}"
    channel.reply_consumer = ReplyConsumer(channel, tag, name)
    channel.broker.reply_consumers[name] = channel.reply_consumer
    if not method.nowait:
        channel.send(methods.encode_basic_consume_ok(tag))


def node_of(name: str) -> str | None:
    """The node of the channel that a reply_to names; None if it names none."""
    if not name.startswith(PREFIX):
        return None
    coded = name.removeprefix(PREFIX).partition(".")[0]
    try:
        return urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode() or None
    except ValueError:
        return None


def stop(channel: Channel) -> None:
    """The channel no longer waits for replies."""
    if channel.reply_consumer is not None:
        channel.broker.reply_consumers.pop(channel.reply_consumer.name, None)
        channel.reply_consumer = None


def check(channel: Channel, properties: bytes) -> None:
    """A request for a direct reply needs somebody who waits for it."""
    if channel.reply_consumer is None and decode_properties(properties, 0).reply_to == QUEUE_NAME:
        raise PreconditionFailed("fast reply consumer does not exist")


def expand(channel: Channel, envelope: Envelope, contents: list[bytes]) -> tuple[Envelope, list[bytes]]:
    """Put the channel's own reply name into a request that has been checked."""
    assert envelope.properties is not None
    properties = decode_properties(envelope.properties, 0)
    if properties.reply_to != QUEUE_NAME or channel.reply_consumer is None:
        return envelope, contents
    payload = encode_properties(properties._replace(reply_to=channel.reply_consumer.name))
    return make_envelope(envelope.publish, payload), [
        with_properties(content, payload) for content in contents
    ]
