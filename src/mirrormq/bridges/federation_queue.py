"""Plan of a queue link: it consumes upstream only while the federated queue needs messages."""

from __future__ import annotations

from dataclasses import replace

from mirrormq.bridges.federation_exchange import NOT_FOUND_CODE, cluster_of, no_setup
from mirrormq.bridges.federation_headers import Origin, queue_properties
from mirrormq.bridges.federation_links import FederatedQueue
from mirrormq.bridges.link_plan import (
    AckMode,
    Destination,
    LinkContext,
    LinkPlan,
    Outgoing,
    Setup,
    SetupFailed,
    Source,
    Subscription,
    required,
)
from mirrormq.bridges.link_status import shown_uri
from mirrormq.client.amqp_uri import AmqpUri, parse_amqp_uri
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import ChannelClosed, Delivery
from mirrormq.metadata.link_records import LinkKey
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, decode_entries

PRIORITY = -1
"""Priority of the link's consumer: consumers of the upstream come first."""


def queue_plan(_key: LinkKey, definition: FederatedQueue, context: LinkContext) -> LinkPlan:
    """Return the plan of a queue link."""
    upstream = definition.upstream
    uris = tuple(
        uri if uri.vhost is not None else replace(uri, vhost=definition.vhost)
        for uri in map(parse_amqp_uri, upstream.uris)
    )

    def set_up(_source: ClientConnection) -> Setup[Subscription]:
        reply = yield methods.encode_queue_declare(definition.upstream_name, passive=True)
        if isinstance(reply, ChannelClosed):
            if reply.code != NOT_FOUND_CODE:
                raise SetupFailed(reply.text)
            request = methods.encode_queue_declare(
                definition.upstream_name,
                durable=definition.durable,
                auto_delete=definition.auto_delete,
                arguments=decode_entries(definition.arguments),
            )
            yield from required(request)
        return Subscription(definition.upstream_name)

    def transform(delivery: Delivery, source: ClientConnection) -> Outgoing:
        used = context.uri_indexes()[0]
        origin = Origin(
            shown_uri(upstream.uris[used]), definition.name, definition.upstream_name, cluster_of(source),
            uris[used].vhost or "",
        )  # fmt: skip
        properties = queue_properties(
            delivery.properties, origin, delivery.redelivered, delivery.exchange, delivery.routing_key,
            upstream.trust_user_id,
        )  # fmt: skip
        return Outgoing("", definition.name, properties, delivery.body)

    return LinkPlan(
        f"Federation link (upstream: {upstream.name}, policy: {definition.policy})",
        Source(
            uris, set_up, max(0, upstream.prefetch), upstream.consumer_tag,
            {"x-priority": Field("I", PRIORITY)},
        ),
        Destination((AmqpUri("", vhost=definition.vhost),), no_setup),
        transform,
        AckMode(upstream.ack_mode),
        upstream.reconnect_delay_s,
        consume_at_start=False,
    )  # fmt: skip
