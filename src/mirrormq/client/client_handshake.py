"""Handshake values of a client: properties, SASL response, negotiated limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirrormq.client.amqp_uri import (
    CHANNEL_MAX,
    DEFAULT_USER,
    DEFAULT_VHOST,
    HEARTBEAT_S,
    MECHANISMS,
    AmqpUri,
)
from mirrormq.wire.fields import Field, Table, encode_table, table_of
from mirrormq.wire.frames import FRAME_MAX_BYTES

BODY_BYTES_MAX = 512 * 1024 * 1024
"""Largest body that a client accepts: RabbitMQ's upper bound of `max_message_size`. Octets are stored as they
arrive: a broker cannot make a client allocate this by announcing it."""

CAPABILITIES: Mapping[str, object] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


@dataclass(frozen=True)
class ClientOptions:
    """Requested properties and limits of a client connection."""

    user: str = field(default=DEFAULT_USER, repr=False)
    password: str = field(default=DEFAULT_USER, repr=False)
    vhost: str = DEFAULT_VHOST
    mechanisms: tuple[str, ...] = MECHANISMS
    """Mechanisms in order of preference."""
    heartbeat_s: int | None = HEARTBEAT_S
    """0: the broker's interval. None: no heartbeats, whatever the broker proposes."""
    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX_BYTES
    body_bytes_max: int = BODY_BYTES_MAX
    product: str = "mirrormq client"
    connection_name: str = ""
    """Shown as client-provided name in lists of connections."""
    capabilities: Mapping[str, object] = field(default_factory=lambda: CAPABILITIES)

    @classmethod
    def of_uri(
        cls, uri: AmqpUri, product: str, *, heartbeat_s: int | None = HEARTBEAT_S, connection_name: str = ""
    ) -> ClientOptions:
        """Return the options of a URI; `heartbeat_s` applies if the URI has none."""
        user, password = uri.login
        return cls(
            user=user,
            password=password,
            vhost=DEFAULT_VHOST if uri.vhost is None else uri.vhost,
            mechanisms=uri.mechanisms,
            heartbeat_s=heartbeat_s if uri.heartbeat_s is None else uri.heartbeat_s,
            channel_max=uri.channel_max,
            frame_max=uri.frame_max or FRAME_MAX_BYTES,
            product=product,
            connection_name=connection_name,
        )


def client_properties(options: ClientOptions) -> Table:
    """Client properties of connection.start-ok."""
    properties: dict[str, object] = {"product": options.product, "capabilities": dict(options.capabilities)}
    if options.connection_name:
        properties["connection_name"] = options.connection_name
    return table_of(properties)


def choose_mechanism(offered: bytes, options: ClientOptions) -> str | None:
    """Return the first preferred mechanism that the broker offers and this client supports."""
    names = offered.decode("ascii", "replace").split(" ")
    usable = [name for name in options.mechanisms if name in names and name in _RESPONSES]
    return usable[0] if usable else None


def sasl_response(mechanism: str, options: ClientOptions) -> bytes:
    """Initial response of a mechanism."""
    return _RESPONSES[mechanism](options)


def _plain(options: ClientOptions) -> bytes:
    return b"\0" + _octets(options.user) + b"\0" + _octets(options.password)


def _amqplain(options: ClientOptions) -> bytes:
    table: Table = {
        "LOGIN": Field("S", _octets(options.user)),
        "PASSWORD": Field("S", _octets(options.password)),
    }
    return encode_table(table)[4:]  # RabbitMQ's variant of a table: without its length


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _external(_options: ClientOptions) -> bytes:
    return b""  # the certificate identifies the user


_RESPONSES: dict[str, Callable[[ClientOptions], bytes]] = {
    "PLAIN": _plain,
    "AMQPLAIN": _amqplain,
    "EXTERNAL": _external,
}


def negotiate(client: int, server: int) -> int:
    """Return the smaller limit, or the limit of the other side if one side has none (0)."""
    return min(client, server) if client and server else max(client, server)
