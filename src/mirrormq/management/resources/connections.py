"""Resource: connections of all nodes, and their closing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrormq.connections.open_connections import open_connections
from mirrormq.management import access, object_json
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import not_authorised, not_found
from mirrormq.management.resources import channels as channel_rows
from mirrormq.management.route_table import ApiRoute
from mirrormq.wire.fields import plain

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection

CLOSED_BY = "Closed via management plugin"


def row(call: ApiRequest, connection: Connection, nothing: str | None = None) -> dict[str, Any]:
    """Return the row of a connection; RabbitMQ writes missing facts as null in lists, as an empty text in
    one object."""
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
        "protocol": peer.protocol,
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
        **{name: fact or nothing for name, fact in peer.facts._asdict().items()},
    }


def _name(found: Connection | dict[str, Any]) -> str:
    return str(found["name"]) if isinstance(found, dict) else str(found.name)


def _user(found: Connection | dict[str, Any]) -> str:
    return str(found["user"]) if isinstance(found, dict) else found.user.name


async def _visible(call: ApiRequest) -> list[Connection | dict[str, Any]]:
    """Return the visible connections of this node and visible rows of other nodes."""
    rows = await call.peer_client.rows("connections", query=call.asked)
    visible = [row for row in rows if object_json.visible(call, row)]
    return sorted([*object_json.connections(call), *visible], key=_name)


async def list_connections(call: ApiRequest) -> ListReply:
    return ListReply(
        await _visible(call), lambda found: found if isinstance(found, dict) else row(call, found), _name
    )


async def _connection_of_path(call: ApiRequest) -> Connection | dict[str, Any]:
    """Return the connection of the path, or its row if another node has it."""
    found: Connection | dict[str, Any] | None = next(
        (each for each in open_connections(call.node.broker) if each.name == call.name), None
    )
    if found is None:
        answers = await call.peer_client.ask_all("connection", name=call.name, query=call.asked)
        found = next(iter(answers.values()), None)
    if found is None:
        raise not_found()
    if not call.is_monitor and _user(found) != call.user.name:
        raise not_authorised("User not authorised to access object")
    return found


async def show(call: ApiRequest) -> dict[str, Any]:
    found = await _connection_of_path(call)
    return found if isinstance(found, dict) else row(call, found, "")


def _reason(call: ApiRequest) -> str:
    """Return the reason for the client. A header is octets, and other clients send UTF-8 in it."""
    return call.headers.get("x-reason", CLOSED_BY).encode("latin-1").decode("utf-8", "replace")


def close_all(call: ApiRequest, connections: list[Connection], actor: str, reason: str) -> None:
    """Close connections of this node."""
    with call.node.metadata.acting_as(actor):
        for connection in connections:
            connection.force_close(reason)
    call.node.changed()


async def _close_on_peers(call: ApiRequest, by: str, value: str) -> None:
    reason = _reason(call)
    await call.peer_client.ask_all("close", by=by, value=value, actor=call.user.name, reason=reason)


async def close(call: ApiRequest) -> EmptyReply:
    """Close a connection; only administrators and the connection's user may do so."""
    found = await _connection_of_path(call)
    if access.ADMINISTRATOR not in call.user.tags and _user(found) != call.user.name:
        raise not_authorised("User not authorised to access object")
    if isinstance(found, dict):
        await _close_on_peers(call, "name", call.name)
    else:
        close_all(call, [found], call.user.name, _reason(call))
    return EmptyReply()


async def channels(call: ApiRequest) -> ListReply:
    found = await _connection_of_path(call)
    if not isinstance(found, dict):
        return channel_rows.listing(call, object_json.channels([found]), [])
    rows = await call.peer_client.rows("channels", connection=call.name, query=call.asked)
    return channel_rows.listing(call, [], rows)


async def _of_user(call: ApiRequest) -> list[Connection | dict[str, Any]]:
    may = call.is_monitor if call.method == "GET" else call.is_administrator
    if not may and call.name != call.user.name:
        raise not_authorised("User not authorised to access object")
    return [found for found in await _visible(call) if _user(found) == call.name]


async def list_of_user(call: ApiRequest) -> ListReply:
    def short(found: Connection | dict[str, Any]) -> dict[str, Any]:
        if isinstance(found, dict):
            return {name: found[name] for name in ("name", "vhost", "user", "node")}
        return {"name": found.name, "vhost": found.vhost_name, "user": found.user.name, "node": call.me}

    return ListReply(await _of_user(call), short)


async def close_of_user(call: ApiRequest) -> EmptyReply:
    found = await _of_user(call)
    local = [each for each in found if not isinstance(each, dict)]
    close_all(call, local, call.user.name, _reason(call))
    if len(local) < len(found):
        await _close_on_peers(call, "user", call.name)
    return EmptyReply()


ROUTES = [
    ApiRoute("connections", access.management, {"GET": list_connections}),
    ApiRoute("connections/{name}", access.management, {"GET": show, "DELETE": close}),
    ApiRoute("connections/{name}/channels", access.management, {"GET": channels}),
    ApiRoute(
        "connections/username/{name}", access.management, {"GET": list_of_user, "DELETE": close_of_user}
    ),
    ApiRoute("vhosts/{vhost}/connections", access.vhost, {"GET": list_connections}),
]
