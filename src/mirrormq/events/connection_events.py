"""Event facts of connections, logins, channels and consumers, in RabbitMQ's order."""

from __future__ import annotations

from mirrormq.events.event_host import EventChannel, EventConnection, EventConsumer
from mirrormq.events.event_values import PROTOCOL, Facts, characters, printed, printed_address

ACTOR = "user_who_performed_action"


def connection_created(connection: EventConnection) -> Facts:
    """Return the facts of connection.created."""
    peer = connection.peer
    return {
        ACTOR: connection.user.name,
        "node": connection.broker.settings.name,
        "connected_at": connection.connected_at_ms,
        "client_properties": printed(connection.client_properties),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat_s,
        "vhost": connection.vhost_name,
        "user": connection.user.name,
        "protocol": PROTOCOL,
        "ssl_hash": peer.facts.ssl_hash,
        "ssl_cipher": peer.facts.ssl_cipher,
        "ssl_key_exchange": peer.facts.ssl_key_exchange,
        "ssl_protocol": peer.facts.ssl_protocol,
        "auth_mechanism": connection.mechanism,
        "peer_cert_validity": peer.facts.peer_cert_validity,
        "peer_cert_issuer": peer.facts.peer_cert_issuer,
        "peer_cert_subject": peer.facts.peer_cert_subject,
        "ssl": peer.tls,
        "peer_host": printed_address(peer.host),
        "host": printed_address(peer.server_host),
        "peer_port": peer.port,
        "port": peer.server_port,
        "name": connection.name,
        "pid": connection.broker.pids.of_connection(connection),
        "type": "network",
        **_user_provided_name(connection),
    }


def connection_closed(connection: EventConnection) -> Facts:
    """Return the facts of connection.closed, also for a client that never logged in."""
    return {
        "client_properties": printed(connection.client_properties),
        "node": connection.broker.settings.name,
        "pid": connection.broker.pids.of_connection(connection),
        "name": connection.name,
        **_user_provided_name(connection),
    }


def _user_provided_name(connection: EventConnection) -> Facts:
    field = connection.client_properties.get("connection_name")
    if field is None or not isinstance(field.value, bytes):
        return {}
    return {"user_provided_name": field.value.decode("utf-8", "surrogateescape")}


def authentication(connection: EventConnection, user: str | None, error: str | None = None) -> Facts:
    """Return the facts of a login attempt. Without a readable user name the fact is left out."""
    peer = connection.peer
    return {
        **({} if error is None else {"error": characters(error)}),
        "ssl": peer.tls,
        "auth_mechanism": connection.mechanism,
        "protocol": PROTOCOL,
        "peer_port": peer.port,
        "peer_host": printed_address(peer.host),
        "connection_name": connection.name,
        "host": printed_address(peer.server_host),
        **({} if user is None else {"name": user}),
        "connection_type": "network",
    }


def channel_created(channel: EventChannel) -> Facts:
    """Return the facts of channel.created."""
    pids = channel.broker.pids
    return {
        ACTOR: channel.user.name,
        "vhost": channel.connection.vhost_name,
        "user": channel.user.name,
        "number": channel.number,
        "connection": pids.of_connection(channel.connection),
        "name": f"{channel.connection.name} ({channel.number})",
        "pid": pids.of_channel(channel),
    }


def channel_closed(channel: EventChannel) -> Facts:
    """Return the facts of channel.closed."""
    return {ACTOR: channel.user.name, "pid": channel.broker.pids.of_channel(channel)}


def consumer_created(consumer: EventConsumer) -> Facts:
    """Return the facts of consumer.created."""
    return {
        ACTOR: consumer.channel.user.name,
        "arguments": printed(consumer.arguments),
        "prefetch_count": consumer.prefetch,
        "queue": consumer.queue.name,
        "vhost": consumer.queue.vhost,
        "channel": consumer.channel.broker.pids.of_channel(consumer.channel),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "consumer_tag": consumer.tag,
    }


def consumer_deleted(consumer: EventConsumer, actor: str | None) -> Facts:
    """Return the facts of consumer.deleted. A channel that lost its queue does not know who deleted it."""
    return {
        **({} if actor is None else {ACTOR: actor}),
        "queue": consumer.queue.name,
        "vhost": consumer.queue.vhost,
        "channel": consumer.channel.broker.pids.of_channel(consumer.channel),
        "consumer_tag": consumer.tag,
    }
