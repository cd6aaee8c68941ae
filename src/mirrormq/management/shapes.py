"""Live objects as the API shows them, where more than one resource shows them."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote

from mirrormq.control.tables import plain_arguments
from mirrormq.metadata import records
from mirrormq.wire.fields import plain

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel
    from mirrormq.channels.consumer import Consumer
    from mirrormq.connections.connection import Connection
    from mirrormq.management.call import Call


def binding(record: records.Binding) -> dict[str, Any]:
    return {
        "source": record.source,
        "vhost": record.vhost,
        "destination": record.destination,
        "destination_type": record.destination_kind,
        "routing_key": record.routing_key,
        "arguments": plain_arguments(record.arguments),
        "properties_key": properties_key(record),
    }


def properties_key(record: records.Binding) -> str:
    """What a binding is called in paths: its routing key, and a hash of its arguments if it has any."""
    key = quote_plus(record.routing_key, errors="surrogateescape").replace("~", "%7E")
    if not record.arguments:
        return key or "~"
    digest = zlib.crc32(record.arguments).to_bytes(4, "big")
    return f"{key}~{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def decoded_key(key: str) -> str:
    """A properties key whose encoding the client has taken for the path's own."""
    return unquote(key, errors="surrogateescape")


def default_binding(vhost: str, queue: str) -> records.Binding:
    """Every queue is bound to the default exchange by its own name; nobody stores that."""
    return records.Binding(vhost, "", "queue", queue, queue)


def connection_details(connection: Connection) -> dict[str, Any]:
    peer = connection.peer
    return {"name": connection.name, "peer_host": peer.host, "peer_port": peer.port}


def consumer(call: Call, found: Consumer) -> dict[str, Any]:
    turns, channel = found.queue.consumers, found.channel
    active = not turns.single_active or turns.active is found
    peer = channel.connection.peer
    return {
        "arguments": plain(found.arguments),
        "ack_required": not found.no_ack,
        "active": active,
        "activity_status": "up" if not turns.single_active else "single_active" if active else "waiting",
        "channel_details": {
            "connection_name": channel.connection.name,
            "name": channel_name(channel),
            "node": call.node.settings.name,
            "number": channel.number,
            "peer_host": peer.host,
            "peer_port": peer.port,
            "user": channel.user.name,
        },
        "consumer_tag": found.tag,
        "exclusive": found.exclusive,
        "prefetch_count": found.prefetch,
        "queue": {"name": found.queue.name, "vhost": found.queue.vhost},
    }


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel(call: Call, found: Channel) -> dict[str, Any]:
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
        **call.statistics.channel(found),
    }


def channels(call: Call, connections: list[Connection]) -> list[Channel]:
    return [found for connection in connections for found in connection.channels.values()]


def connections(call: Call) -> list[Connection]:
    """Those that the user may see: all for who monitors, else their own; of the path's vhost, if any."""
    vhost = call.parts.get("vhost")
    found = [
        connection
        for connection in call.node.broker.connections
        if (call.is_monitor or connection.user.name == call.user.name)
        and (vhost is None or connection.vhost_name == vhost)
    ]
    return sorted(found, key=lambda connection: connection.name)
