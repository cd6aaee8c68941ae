"""Connections: looking at them, closing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrormq.management import access, shapes
from mirrormq.management.answers import Silent, not_authorised, not_found
from mirrormq.management.call import Call, Done, Listing
from mirrormq.management.routing import Route
from mirrormq.wire.fields import plain

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

PROTOCOL = "AMQP 0-9-1"
CLOSED_BY = "Closed via management plugin"
NOT_WITHOUT_TLS = (
    "peer_cert_issuer", "peer_cert_subject", "peer_cert_validity", "ssl_cipher", "ssl_hash",
    "ssl_key_exchange", "ssl_protocol",
)  # fmt: skip


def row(call: Call, connection: Connection, nothing: str | None = None) -> dict[str, Any]:
    """RabbitMQ writes null in lists and the empty text for one object."""
    properties = plain(connection.client_properties)
    name = properties.get("connection_name")
    peer = connection.peer
    return {
        "auth_mechanism": connection.mechanism,
        "channel_max": connection.channel_max,
        "channels": len(connection.channels),
        "client_properties": properties,
        "connected_at": connection.connected_at_ms,
        "frame_max": connection.frame_max,
        "host": peer.server_host,
        "name": connection.name,
        "node": call.node.settings.name,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "port": peer.server_port,
        "protocol": PROTOCOL,
        "send_pend": call.node.pending_bytes(connection),
        "ssl": peer.tls,
        "state": "blocked" if connection.blocked else "running",
        "timeout": connection.heartbeat_s,
        "type": "network",
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "vhost": connection.vhost_name,
        **({"user_provided_name": name} if isinstance(name, str) else {}),
        **call.statistics.connection(connection, call.ranges),
        **dict.fromkeys(NOT_WITHOUT_TLS, nothing),
    }


def list_connections(call: Call) -> Listing:
    return Listing(shapes.connections(call), lambda found: row(call, found), lambda found: str(found.name))


def _one(call: Call) -> Connection:
    for connection in call.node.broker.connections:
        if connection.name == call.name:
            if call.is_monitor or connection.user.name == call.user.name:
                return connection
            raise not_authorised("User not authorised to access object")
    raise not_found()


def show(call: Call) -> dict[str, Any]:
    return row(call, _one(call), "")


def close(call: Call) -> Done:
    """Whoever may see it and is an administrator, or its own user, may end it."""
    connection = _one(call)
    if access.ADMINISTRATOR not in call.user.tags and connection.user.name != call.user.name:
        raise not_authorised("User not authorised to access object")
    with call.node.metadata.acting_as(call.user.name):
        connection.force_close(call.headers.get("x-reason", CLOSED_BY))
    return Done()


def channels(call: Call) -> Listing:
    """RabbitMQ's handler crashes for a connection that is not there."""
    if not any(found.name == call.name for found in call.node.broker.connections):
        raise Silent
    return Listing(shapes.channels(call, [_one(call)]), lambda found: shapes.channel(call, found))


def _of_user(call: Call) -> list[Connection]:
    if access.ADMINISTRATOR not in call.user.tags and call.name != call.user.name:
        raise not_authorised("User not authorised to access object")
    return [found for found in shapes.connections(call) if found.user.name == call.name]


def list_of_user(call: Call) -> Listing:
    def short(found: Connection) -> dict[str, Any]:
        node = call.node.settings.name
        return {"name": found.name, "vhost": found.vhost_name, "user": found.user.name, "node": node}

    return Listing(_of_user(call), short)


def close_of_user(call: Call) -> Done:
    with call.node.metadata.acting_as(call.user.name):
        for connection in _of_user(call):
            connection.force_close(call.headers.get("x-reason", CLOSED_BY))
    return Done()


ROUTES = [
    Route("connections", access.management, {"GET": list_connections}),
    Route("connections/{name}", access.management, {"GET": show, "DELETE": close}),
    Route("connections/{name}/channels", access.management, {"GET": channels}),
    Route("connections/username/{name}", access.management, {"GET": list_of_user, "DELETE": close_of_user}),
    Route("vhosts/{vhost}/connections", access.visible_vhost, {"GET": list_connections}),
]
