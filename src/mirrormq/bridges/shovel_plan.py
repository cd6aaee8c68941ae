"""Plan of a shovel's link: what it declares at both ends, and how it changes a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.bridges.link_plan import Destination, LinkPlan, Outgoing, Setup, Source, Subscription
from mirrormq.bridges.link_setup import bound_exclusive_queue, declared_queue, existing_queue
from mirrormq.bridges.link_status import shown_uri
from mirrormq.bridges.shovel_parameters import AMQP_1_0, HEADERS_PROPERTY, ShovelDefinition
from mirrormq.client.amqp_uri import parse_amqp_uri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Delivery
from mirrormq.wire.fields import Field, Table, table_of
from mirrormq.wire.properties import decode_properties, encode_properties

FORWARD_HEADER = "x-shovelled"
TIMESTAMP_HEADER = "x-shovelled-timestamp"
STATIC, DYNAMIC = "static", "dynamic"
"""Types of shovels: defined in a node's settings, or by a parameter."""


class ShovelTransform:
    """Transform of a shovel's messages: exchange, routing key, properties and headers."""

    def __init__(
        self, definition: ShovelDefinition, forward: Callable[[], Table], now_s: Callable[[], int]
    ) -> None:
        self._definition = definition
        self._forward = forward
        """Returns the entry of the header `x-shovelled`, which names the URIs in use."""
        self._now_s = now_s
        given = dict(definition.publish_properties)
        self._headers = table_of(given.pop(HEADERS_PROPERTY, {}) or {})
        """Headers that each message gets; they replace its headers of the same names."""
        self._overwritten: dict[str, Any] = {
            "type_" if name == "type" else name: value if isinstance(value, str) else int(value)
            for name, value in given.items()
        }
        self._exchange: str | None = None
        self._routing_key: str | None = None
        """Target of all messages; None: it stays as it was."""
        if definition.destination_queue is not None:
            self._exchange, self._routing_key = "", definition.destination_queue
        elif definition.destination_exchange_key is not None:
            self._routing_key = definition.destination_exchange_key
        if definition.destination_exchange is not None:
            self._exchange = definition.destination_exchange
        self._keeps_properties = not (
            self._overwritten
            or self._headers
            or definition.add_forward_headers
            or definition.add_timestamp_header
        )

    def __call__(self, delivery: Delivery, _source: ClientConnection) -> Outgoing:
        exchange = delivery.exchange if self._exchange is None else self._exchange
        routing_key = delivery.routing_key if self._routing_key is None else self._routing_key
        properties = delivery.properties
        if not self._keeps_properties:
            properties = self._properties(properties)
        return Outgoing(exchange, routing_key, properties, delivery.body)

    def _properties(self, encoded: bytes) -> bytes:
        properties = decode_properties(encoded, 0)
        headers = {**(properties.headers or {}), **self._headers}
        if self._definition.add_forward_headers:
            before = headers.get(FORWARD_HEADER)
            entries = list(before.value) if before is not None and isinstance(before.value, list) else []
            headers[FORWARD_HEADER] = Field("A", [Field("F", self._forward()), *entries])
        if self._definition.add_timestamp_header:
            headers[TIMESTAMP_HEADER] = Field("l", self._now_s())
        return encode_properties(
            properties._replace(headers=headers or properties.headers, **self._overwritten)
        )


def forward_entry(
    definition: ShovelDefinition, vhost: str, name: str, cluster: str, source_uri: str, destination_uri: str
) -> Table:
    """Return the entry of `x-shovelled`; URIs are without credentials. Static shovels have no vhost, and
    RabbitMQ does not name their ends."""
    if not vhost:
        static = {"shovelled-by": cluster, "shovel-type": STATIC, "shovel-name": name}
        return table_of(static | {"src-uri": source_uri, "dest-uri": destination_uri})
    entry = {
        "shovelled-by": cluster,
        "shovel-type": DYNAMIC,
        "shovel-name": name,
        "shovel-vhost": vhost,
        "src-uri": source_uri,
        "dest-uri": destination_uri,
    }
    if definition.source_queue is not None:
        entry["src-queue"] = definition.source_queue
    else:
        entry["src-exchange"] = definition.source_exchange or ""
        entry["src-exchange-key"] = definition.source_exchange_key
    optional = {
        "dest-exchange": definition.destination_exchange,
        "dest-exchange-key": definition.destination_exchange_key,
        "dest-queue": definition.destination_queue,
    }
    entry.update({key: value for key, value in optional.items() if value is not None})
    return table_of(entry)


def ends_of(definition: ShovelDefinition) -> dict[str, str]:
    """Return the ends of a shovel under the names of the HTTP API, without credentials."""
    given = {
        "src_uri": shown_uri(definition.source_uris[0]),
        "src_protocol": definition.source_protocol,
        "dest_protocol": definition.destination_protocol,
        "dest_uri": shown_uri(definition.destination_uris[0]),
        "src_queue": definition.source_queue,
        "src_exchange": definition.source_exchange,
        "src_exchange_key": definition.source_exchange_key or None,
        "src_address": definition.source_address,
        "dest_address": definition.destination_address,
        "dest_queue": definition.destination_queue,
        "dest_exchange": definition.destination_exchange,
        "dest_exchange_key": definition.destination_exchange_key,
    }
    return {name: value for name, value in given.items() if value is not None}


def plan_of(name: str, definition: ShovelDefinition, transform: ShovelTransform) -> LinkPlan:
    """Return the plan of a shovel's link; raise ValueError if its protocol is not supported."""
    if AMQP_1_0 in (definition.source_protocol, definition.destination_protocol):
        raise ValueError(
            "AMQP 1.0 is not supported; use amqp091, with a queue or an exchange in place of the address"
        )

    def set_up_source(_connection: ClientConnection) -> Setup[Subscription]:
        if definition.source_queue is not None and definition.source_predeclared:
            declared = yield from existing_queue(definition.source_queue)
        elif definition.source_queue is not None:
            arguments = table_of(definition.source_queue_arguments)
            declared = yield from declared_queue(definition.source_queue, arguments)
        else:
            exchange, key = definition.source_exchange or "", definition.source_exchange_key
            declared = yield from bound_exclusive_queue(exchange, key)
        return Subscription(declared.queue, declared.message_count)

    def set_up_destination(_connection: ClientConnection) -> Setup[None]:
        if definition.destination_queue is None:
            return
        if definition.destination_predeclared:
            yield from existing_queue(definition.destination_queue)
        else:
            arguments = table_of(definition.destination_queue_arguments)
            yield from declared_queue(definition.destination_queue, arguments)

    return LinkPlan(
        f"Shovel {name}",
        Source(
            tuple(map(parse_amqp_uri, definition.source_uris)),
            set_up_source,
            definition.prefetch,
            definition.consumer_tag,
            consumer_arguments=table_of(definition.consumer_arguments),
        ),
        Destination(
            tuple(map(parse_amqp_uri, definition.destination_uris)),
            set_up_destination,
            mandatory=not definition.drops_unroutable,
        ),
        transform,
        definition.ack_mode,
        definition.reconnect_delay_s,
        definition.limit,
        definition.limit_to_ready,
    )
