"""Firehose tracer: publishes a copy of every publish and delivery of a traced vhost to
`amq.rabbitmq.trace`."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.events.event_host import EventChannel, LogHost
from mirrormq.queues import sender_selected_routing
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.wire.content import body_of, properties_of
from mirrormq.wire.fields import Field, Table, table_of
from mirrormq.wire.properties import PROPERTY_TYPES, BasicProperties, decode_properties

EXCHANGE = "amq.rabbitmq.trace"


class Firehose:
    """Publisher of message copies to the trace exchange."""

    def __init__(self, broker: LogHost) -> None:
        self._broker = broker

    def published(
        self,
        channel: EventChannel,
        envelope: Envelope,
        queues: Sequence[QueueInterface],
        contents: list[bytes],
    ) -> None:
        """Trace messages that a channel has published."""
        if envelope.exchange == EXCHANGE:
            return
        for content in contents:
            headers = self._headers(channel, envelope, content)
            headers["routed_queues"] = Field("A", [_text(queue.name) for queue in queues])
            self._send(channel, f"publish.{envelope.exchange}", headers, content)

    def delivered(self, channel: EventChannel, queue: QueueInterface, messages: Sequence[Message]) -> None:
        """Trace messages that were delivered to a channel."""
        for message in messages:
            if message.envelope.exchange == EXCHANGE:
                continue
            headers = self._headers(channel, message.envelope, message.frames)
            headers["redelivered"] = Field("I", int(message.redelivered))
            self._send(channel, f"deliver.{queue.name}", headers, message.frames)

    def _send(self, channel: EventChannel, key: str, headers: Table, frames: bytes) -> None:
        channel.vhost.publish(EXCHANGE, key, BasicProperties(headers=headers), body_of(frames))

    def _headers(self, channel: EventChannel, envelope: Envelope, frames: bytes) -> Table:
        properties = decode_properties(properties_of(frames), 0)
        keys = [envelope.routing_key, *sender_selected_routing.header_keys(properties.headers or {}, "CC")]
        return {
            **table_of(
                {
                    "exchange_name": envelope.exchange,
                    "vhost": channel.vhost.name,
                    "connection": channel.connection.name,
                    "channel": channel.number,
                    "user": channel.user.name,
                    "node": self._broker.settings.name,
                }
            ),
            "routing_keys": Field("A", [_text(key) for key in keys]),
            "properties": Field("F", _properties_table(properties)),
        }


def _text(value: str) -> Field:
    return Field("S", value.encode("utf-8", "surrogateescape"))


def _properties_table(properties: BasicProperties) -> Table:
    table: Table = {}
    for name in PROPERTY_TYPES:
        value = getattr(properties, name)
        if value is None:
            continue
        if isinstance(value, dict):
            table[name] = Field("F", value)
        elif isinstance(value, str):
            table[name.rstrip("_")] = _text(value)
        else:
            table[name] = Field("T" if name == "timestamp" else "I", value)
    return table
