"""JSON of live objects that more than one resource shows."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote

from mirrormq.connections.open_connections import open_connections
from mirrormq.control.definitions_json import binding_row
from mirrormq.metadata import records
from mirrormq.wire.fields import decode_table, plain

if TYPE_CHECKING:
    from mirrormq.broker.connection_base import ConnectionBase
    from mirrormq.channels.channel import Channel
    from mirrormq.connections.connection import Connection
    from mirrormq.management.api_request import ApiRequest
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.queues.queue import Queue
    from mirrormq.queues.queue_interface import QueueInterface


def binding(record: records.Binding) -> dict[str, Any]:
    return {**binding_row(record), "properties_key": properties_key(record)}


def properties_key(record: records.Binding) -> str:
    """Return the identifier of a binding in paths: its routing key, and a hash of its arguments if it has
    any."""
    key = quote_plus(record.routing_key, errors="surrogateescape").replace("~", "%7E")
    if not record.arguments:
        return key or "~"
    digest = zlib.crc32(record.arguments).to_bytes(4, "big")
    return f"{key}~{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def decoded_key(key: str) -> str:
    """Decode a properties key once more, for clients that did not encode it separately."""
    return unquote(key, errors="surrogateescape")


def default_binding(vhost: str, queue: str) -> records.Binding:
    """Return the binding of a queue to the default exchange, which is implied and not stored."""
    return records.Binding(vhost, "", "queue", queue, queue)


def connection_details(connection: ConnectionBase) -> dict[str, Any]:
    peer = connection.peer
    return {"name": connection.name, "peer_host": peer.host, "peer_port": peer.port}


def consumer(queue: QueueInterface, found: QueueConsumer) -> dict[str, Any]:
    described, active = found.describe(), queue.is_active(found)
    single = queue.settings.single_active_consumer
    return {
        "arguments": plain(decode_table(described.arguments, 0)[0]),
        "ack_required": described.ack_required,
        "active": active,
        "activity_status": "up" if not single else "single_active" if active else "waiting",
        "channel_details": {
            "connection_name": described.connection_name,
            "name": described.channel_name,
            "node": described.node,
            "number": described.channel_number,
            "peer_host": described.peer_host,
            "peer_port": described.peer_port,
            "user": described.user,
        },
        "consumer_tag": described.tag,
        "exclusive": described.exclusive,
        "prefetch_count": described.prefetch,
        "queue": {"name": queue.name, "vhost": queue.vhost},
    }


def consumers_of(queue: Queue) -> list[dict[str, Any]]:
    return [consumer(queue, found) for found in queue.consumers.all]


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel_details(call: ApiRequest, found: Channel) -> dict[str, Any]:
    """Return the short form of a channel inside another object."""
    connection = found.connection
    return {
        "connection_name": connection.name,
        "name": channel_name(found),
        "node": call.me,
        "number": found.number,
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
        "user": found.user.name,
    }


def channel(call: ApiRequest, found: Channel) -> dict[str, Any]:
    publishing = found.publishing
    ledger = publishing.confirms
    return {
        "acks_uncommitted": sum(len(deliveries) for _, deliveries in publishing.settlements),
        "confirm": ledger is not None,
        "connection_details": connection_details(found.connection),
        "consumer_count": len(found.consumers),
        "global_prefetch_count": found.prefetch,
        "messages_unacknowledged": len(found.unacked.by_tag),
        "messages_uncommitted": sum(len(batch) for _, _, batch in publishing.transaction or ()),
        "messages_unconfirmed": 0 if ledger is None else ledger.open_count,
        "name": channel_name(found),
        "node": call.node.settings.name,
        "number": found.number,
        "pending_raft_commands": 0,
        "prefetch_count": found.consumer_prefetch,
        "state": "running",
        "transactional": publishing.transaction is not None,
        "user": found.user.name,
        "user_who_performed_action": found.user.name,
        "vhost": found.connection.vhost_name,
        **call.statistics.channel(found, call.ranges),
    }


def channels(connections: list[Connection]) -> list[Channel]:
    return [found for connection in connections for found in connection.channels.values()]


def visible(call: ApiRequest, row: dict[str, Any]) -> bool:
    """Report whether the user may see a connection or channel of another node."""
    own = call.is_monitor or bool(row["user"] == call.user.name)
    return own and bool(call.parts.get("vhost", row["vhost"]) == row["vhost"])


def connections(call: ApiRequest) -> list[Connection]:
    """Return this node's connections that the user may see, limited to the vhost of the path, if any.
    Users with the tag monitoring see all connections, others their own."""
    vhost = call.parts.get("vhost")
    found = [
        connection
        for connection in open_connections(call.node.broker)
        if (call.is_monitor or connection.user.name == call.user.name)
        and (vhost is None or connection.vhost_name == vhost)
    ]
    return sorted(found, key=lambda connection: connection.name)
