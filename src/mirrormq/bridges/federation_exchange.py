"""Plan of an exchange link: internal queue and exchange at the upstream, bindings, messages.

    upstream exchange → internal exchange (A or B) → internal queue → link → federated exchange

The internal queue buffers while the link is down. Two names of the internal exchange alternate: the link
binds the new one before it deletes the old one, so that no message is missed while bindings change. After a
break in between both exist, and the upstream does not tell which of them has all bindings. The link then
completes one, and only deletes an exchange while the other one is complete.
"""

from __future__ import annotations

from dataclasses import replace

from mirrormq.bridges.federation_bindings import Place, UpstreamBinding, upstream_bindings
from mirrormq.bridges.federation_headers import Origin, exchange_properties
from mirrormq.bridges.federation_links import INTERNAL_PURPOSE, FederatedExchange
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
from mirrormq.client.client_channel import ChannelState, ClientChannel
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import ChannelClosed, Delivery, Event
from mirrormq.metadata.link_records import LinkKey
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table, decode_entries, table_of

NOT_FOUND_CODE = 404
PRECONDITION_FAILED_CODE = 406
PURPOSE = "federation"
UPSTREAM_TYPE = "x-federation-upstream"
LETTERS = ("A", "B")
CLEANUP_NEVER = "never"


def cluster_of(source: ClientConnection) -> str:
    """Return the name of the cluster at the other end of a connection."""
    field = source.server_properties.get("cluster_name")
    return field.value.decode("utf-8", "replace") if field is not None and field.kind == "S" else ""


def internal_queue_name(definition: FederatedExchange, upstream_vhost: str) -> str:
    """Return the name of the internal queue, RabbitMQ's."""
    name = f"federation: {definition.upstream_name} -> {definition.cluster_name}"
    if upstream_vhost != definition.vhost:
        return f"{name}:{definition.vhost}:{definition.name}"
    return name if definition.upstream_name == definition.name else f"{name}:{definition.name}"


class ExchangeLink:
    """State of one exchange link over its attempts. Implements `link_plan.LinkExtension`."""

    def __init__(self, definition: FederatedExchange, context: LinkContext) -> None:
        self.definition = definition
        self._context = context
        self.removed = False
        """The definition is gone: internal queue and exchange are deleted when the link ends."""
        self._internal_exchange = ""
        self._queue = ""
        self._upstream = Place("", "")
        self._bound: dict[UpstreamBinding, Table] = {}
        self._channel: ClientChannel | None = None
        self._declaring = False
        """The declaration of the internal exchange has no answer yet."""

    @property
    def uris(self) -> tuple[AmqpUri, ...]:
        """URIs of the upstream; without a path they name the downstream's vhost."""
        parsed = map(parse_amqp_uri, self.definition.upstream.uris)
        return tuple(
            uri if uri.vhost is not None else replace(uri, vhost=self.definition.vhost) for uri in parsed
        )

    # -- setup --------------------------------------------------------------------------------------

    def set_up(self, source: ClientConnection) -> Setup[Subscription]:
        """Declare everything at the upstream; return the internal queue."""
        definition = self.definition
        vhost = self.uris[self._context.uri_indexes()[0]].vhost or ""
        self._upstream = Place(cluster_of(source), vhost)
        self._queue = queue = internal_queue_name(definition, vhost)
        yield from self._declare_queue(queue)
        yield from self._declare_upstream_exchange()
        first, second = (f"{queue} {letter}" for letter in LETTERS)
        if (yield from _exists(first)):
            if (yield from _exists(second)):
                yield from self._bind_all(first)
                yield from required(methods.encode_exchange_delete(second))
            first, second = second, first
        # A new exchange has no bindings that this cluster has removed meanwhile.
        yield from self._declare_internal_exchange(first)
        yield from self._bind_all(first)
        yield from required(methods.encode_exchange_delete(second))
        former = yield from self._former_queues()
        return Subscription(queue, also=former)

    def _bind_all(self, internal: str) -> Setup[None]:
        """Make an internal exchange complete: the queue and all bindings."""
        self._internal_exchange = internal
        yield from required(methods.encode_queue_bind(self._queue, internal, ""))
        self._bound = self._wanted()
        binds = [self._bind(binding, arguments) for binding, arguments in self._bound.items()]
        # One reply proves all binds before it.
        proof = methods.encode_exchange_declare(internal, "", passive=True)
        reply = yield (*binds, proof)
        if isinstance(reply, ChannelClosed):
            raise SetupFailed(reply.text)

    def _former_queues(self) -> Setup[tuple[str, ...]]:
        """Return the internal queues with messages that bear a former name of this cluster.

        They collect no more once their exchanges are gone. An empty one is deleted.
        """
        kept = []
        for name in self.definition.former_names:
            queue = internal_queue_name(replace(self.definition, cluster_name=name), self._upstream.vhost)
            reply = yield methods.encode_queue_declare(queue, passive=True)
            if isinstance(reply, ChannelClosed):
                continue
            for letter in LETTERS:
                yield from required(methods.encode_exchange_delete(f"{queue} {letter}"))
            deleted = yield methods.encode_queue_delete(queue, if_unused=True, if_empty=True)
            if isinstance(deleted, ChannelClosed):
                kept.append(queue)
        return tuple(kept)

    def _declare_queue(self, queue: str) -> Setup[None]:
        upstream = self.definition.upstream
        given: dict[str, object] = {INTERNAL_PURPOSE: PURPOSE}
        optional = {
            "x-expires": upstream.expires_ms,
            "x-message-ttl": upstream.message_ttl_ms,
            "x-ha-policy": upstream.ha_policy,
            "x-queue-type": upstream.queue_type,
        }
        given |= {name: value for name, value in optional.items() if value is not None}
        reply = yield methods.encode_queue_declare(queue, durable=True, arguments=table_of(given))
        if isinstance(reply, ChannelClosed):
            if reply.code != PRECONDITION_FAILED_CODE:
                raise SetupFailed(reply.text)
            # The upstream's keys have changed. The queue is kept with its messages and its old arguments.
            existing = yield methods.encode_queue_declare(queue, passive=True)
            if isinstance(existing, ChannelClosed):
                raise SetupFailed(reply.text)

    def _declare_upstream_exchange(self) -> Setup[None]:
        name, exchange = self.definition.upstream_name, self.definition.exchange
        reply = yield methods.encode_exchange_declare(name, "", passive=True)
        if not isinstance(reply, ChannelClosed):
            return
        if reply.code != NOT_FOUND_CODE:
            raise SetupFailed(reply.text)
        yield from required(
            methods.encode_exchange_declare(
                name,
                exchange.kind,
                durable=exchange.durable,
                auto_delete=exchange.auto_delete,
                arguments=decode_entries(exchange.arguments),
            )
        )

    def _declare_internal_exchange(self, name: str) -> Setup[None]:
        # A broker that does not know the type closes the connection with 503. The next attempt finds the
        # mark and declares a fanout exchange; hops are then counted at the downstream only.
        kind = "fanout" if self._declaring else UPSTREAM_TYPE
        arguments: Table = {INTERNAL_PURPOSE: Field("S", PURPOSE.encode())}
        if kind == UPSTREAM_TYPE:
            definition = self.definition
            arguments |= table_of(
                {"x-downstream-name": definition.cluster_name, "x-downstream-vhost": definition.vhost}
            )
            arguments["x-max-hops"] = Field("l", definition.upstream.max_hops)
        self._declaring = True
        yield from required(
            methods.encode_exchange_declare(
                name, kind, durable=True, auto_delete=True, internal=True, arguments=arguments
            )
        )
        self._declaring = False

    # -- bindings -----------------------------------------------------------------------------------

    def _wanted(self) -> dict[UpstreamBinding, Table]:
        definition = self.definition
        bindings = self._context.state.bindings_from(definition.vhost, definition.name).values()
        exchange = f"{definition.vhost}:{definition.name} {self._internal_exchange[-1]}"
        here = Place(definition.cluster_name, definition.vhost)
        return upstream_bindings(bindings, exchange, definition.upstream.max_hops, here, self._upstream)

    def _bind(self, binding: UpstreamBinding, arguments: Table) -> bytes:
        return methods.encode_exchange_bind(
            self._internal_exchange, self.definition.upstream_name, binding.routing_key, True, arguments
        )

    def _unbind(self, binding: UpstreamBinding, arguments: Table) -> bytes:
        return methods.encode_exchange_unbind(
            self._internal_exchange, self.definition.upstream_name, binding.routing_key, True, arguments
        )

    def bindings_changed(self) -> None:
        """Bind and unbind at the upstream what has changed here."""
        channel = self._channel
        if channel is None or channel.state is not ChannelState.OPEN:
            return
        wanted = self._wanted()
        for binding, arguments in wanted.items():
            if binding not in self._bound:
                channel.request(self._bind(binding, arguments))
        for binding, arguments in self._bound.items():
            if binding not in wanted:
                channel.request(self._unbind(binding, arguments))
        self._bound = wanted

    # -- LinkExtension ------------------------------------------------------------------------------

    def running(self, source: ClientConnection) -> None:
        self._channel = source.open_channel()
        self.bindings_changed()

    def source_event(self, event: Event) -> str | None:
        if isinstance(event, ChannelClosed) and event.code:
            return f"source: {event.text}"
        return None

    def check(self) -> None:
        if self._channel is not None and self._channel.state is ChannelState.OPEN:
            self._channel.request(methods.encode_exchange_declare(self._internal_exchange, "", passive=True))

    def closing(self, channel: ClientChannel) -> None:
        """Remove the link's objects at the upstream if its definition is gone."""
        cleanup = self.definition.upstream.cleanup
        if not self.removed or cleanup == CLEANUP_NEVER:
            return
        # On the consumer's own channel: the broker handles the requeue before it counts the messages.
        channel.nack(0, multiple=True, requeue=True)
        for letter in LETTERS:
            channel.request(methods.encode_exchange_delete(f"{self._queue} {letter}", nowait=True))
        channel.request(methods.encode_queue_delete(self._queue, if_empty=True))

    def ended(self) -> None:
        self._channel = None

    # -- messages -----------------------------------------------------------------------------------

    def transform(self, delivery: Delivery, source: ClientConnection) -> Outgoing | None:
        """Return the message for the federated exchange; None if it has made its hops."""
        definition = self.definition
        uri = shown_uri(definition.upstream.uris[self._context.uri_indexes()[0]])
        origin = Origin(uri, definition.name, definition.upstream_name, *self._upstream)
        properties = exchange_properties(
            delivery.properties,
            origin,
            delivery.redelivered,
            definition.upstream.max_hops,
            (definition.cluster_name, definition.vhost),
            definition.upstream.trust_user_id,
        )
        if properties is None:
            return None
        return Outgoing(definition.name, delivery.routing_key, properties, delivery.body)


def _exists(exchange: str) -> Setup[bool]:
    reply = yield methods.encode_exchange_declare(exchange, "", passive=True)
    if isinstance(reply, ChannelClosed) and reply.code != NOT_FOUND_CODE:
        raise SetupFailed(reply.text)
    return not isinstance(reply, ChannelClosed)


def exchange_plan(_key: LinkKey, definition: FederatedExchange, context: LinkContext) -> LinkPlan:
    """Return the plan of an exchange link."""
    link = ExchangeLink(definition, context)
    upstream = definition.upstream
    return LinkPlan(
        f"Federation link (upstream: {upstream.name}, policy: {definition.policy})",
        Source(link.uris, link.set_up, max(0, upstream.prefetch)),
        Destination((AmqpUri("", vhost=definition.vhost),), no_setup, mandatory=False),
        link.transform,
        AckMode(upstream.ack_mode),
        upstream.reconnect_delay_s,
        extension=link,
    )


def no_setup(_connection: ClientConnection) -> Setup[None]:
    """Declare nothing: the federated object exists."""
    yield from ()
