"""Direct reply-to: replies without a queue.

A client consumes from the pseudo-queue `amq.rabbitmq.reply-to` and publishes requests with that name as
`reply_to`. The broker replaces it by a name that contains the channel and its node. A client that publishes
to that name through the default exchange reaches the channel directly, from any node. Such a delivery does
not count as a route: a mandatory reply is returned as well, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq import limits
from mirrormq.broker.direct_replies import QUEUE_NAME, reply_name
from mirrormq.errors import PreconditionFailed
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope
from mirrormq.wire import methods
from mirrormq.wire.content import with_properties
from mirrormq.wire.properties import decode_properties, encode_properties

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

QUEUE_NAME_BYTES = QUEUE_NAME.encode()


class ReplyConsumer:
    """Channel that waits for direct replies."""

    def __init__(self, channel: Channel, tag: str, name: str) -> None:
        self.channel = channel
        self.tag = tag
        self.name = name
        """Name that replaces `reply_to` in the channel's requests."""

    def deliver(self, envelope: Envelope, contents: list[bytes]) -> None:
        """Send replies to the client. The broker keeps none of them and expects no acknowledgement."""
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
    """Handle basic.consume on the pseudo-queue."""
    if channel.reply_consumer is not None:
        raise PreconditionFailed("reply consumer already set")
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    name = reply_name(channel.broker.settings.name, channel.broker.unique_name())
    channel.reply_consumer = ReplyConsumer(channel, tag, name)
    channel.broker.reply_consumers[name] = channel.reply_consumer
    if not method.nowait:
        channel.send(methods.encode_basic_consume_ok(tag))


def stop(channel: Channel) -> None:
    """Stop waiting for replies on a channel."""
    if channel.reply_consumer is not None:
        channel.broker.reply_consumers.pop(channel.reply_consumer.name, None)
        channel.reply_consumer = None


def check(channel: Channel, properties: bytes) -> None:
    """Refuse a request for a direct reply if the channel has no reply consumer."""
    if channel.reply_consumer is None and decode_properties(properties, 0).reply_to == QUEUE_NAME:
        raise PreconditionFailed("fast reply consumer does not exist")


def expand(channel: Channel, envelope: Envelope, contents: list[bytes]) -> tuple[Envelope, list[bytes]]:
    """Replace `reply_to` in a checked request by the channel's reply name."""
    assert envelope.properties is not None
    properties = decode_properties(envelope.properties, 0)
    if properties.reply_to != QUEUE_NAME or channel.reply_consumer is None:
        return envelope, contents
    payload = encode_properties(properties._replace(reply_to=channel.reply_consumer.name))
    return make_envelope(envelope.publish, payload), [
        with_properties(content, payload) for content in contents
    ]
