"""Resource: overview with totals and rates of all nodes. Users without the tag monitoring see their own
share."""

from __future__ import annotations

from typing import Any

from mirrormq.connections.open_connections import open_connections
from mirrormq.management import access, object_json
from mirrormq.management.api_request import ApiRequest, EmptyReply
from mirrormq.management.http_errors import bad_request
from mirrormq.management.peer_client import merged
from mirrormq.management.resources.nodes import contexts, exchange_types, listeners
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata.cluster_name import cluster_name, renaming_commands


def own_part(call: ApiRequest, vhosts: list[str], user: str | None) -> dict[str, Any]:
    """Return this node's contribution to the totals, for all users or for one."""
    found = [
        connection
        for connection in open_connections(call.node.broker)
        if user is None or connection.user.name == user
    ]
    channels = object_json.channels(found)
    return {
        "counted": call.statistics.vhosts(vhosts, call.ranges),
        "disk": call.statistics.disk(call.ranges) if call.statistics.disk_used else {},
        "churn": call.statistics.churn(call.ranges.msg_rates),
        "objects": {
            "channels": len(channels),
            "connections": len(found),
            "consumers": sum(len(channel.consumers) for channel in channels),
        },
        "listeners": listeners(call),
        "contexts": [{**each, "node": call.me, "ssl_opts": []} for each in contexts(call)],
    }


async def overview(call: ApiRequest) -> dict[str, Any]:
    settings = call.node.settings
    vhosts = list(call.state.vhosts) if call.is_monitor else call.vhosts()
    user = None if call.is_monitor else call.user.name
    replies = await call.peer_client.ask_all("overview", vhosts=vhosts, user=user, query=call.asked)
    parts = [own_part(call, vhosts, user), *replies.values()]
    counted = merged([part["counted"] for part in parts])
    messages, disk = counted.get("message_stats", {}), merged([part["disk"] for part in parts])
    version = settings.product_version
    shown = {
        "management_version": version,
        "rates_mode": settings.rates_mode,
        "exchange_types": exchange_types(),
        "product_version": version,
        "product_name": settings.product,
        "rabbitmq_version": version,
        "cluster_name": cluster_name(call.state, settings.name),
        "disable_stats": False,
        "enable_queue_totals": False,
        "statistics_db_event_queue": 0,
        "churn_rates": merged([part["churn"] for part in parts]),
        "message_stats": messages | disk if messages else disk,
        "queue_totals": {name: value for name, value in counted.items() if name.startswith("messages")},
        "object_totals": {
            **merged([part["objects"] for part in parts]),
            "exchanges": sum(len(call.state.exchanges_of(vhost)) for vhost in vhosts),
            "queues": sum(len(call.state.queues_of(vhost)) for vhost in vhosts),
        },
    }
    if call.is_monitor:
        shown |= {
            "node": settings.name,
            "listeners": [each for part in parts for each in part["listeners"]],
            "contexts": [each for part in parts for each in part["contexts"]],
        }
    return shown


def show_name(call: ApiRequest) -> dict[str, Any]:
    return {"name": cluster_name(call.state, call.me)}


def put_name(call: ApiRequest) -> EmptyReply:
    name = call.body("name")["name"]
    if not isinstance(name, str):
        raise bad_request(["not_string", name])
    call.write(*renaming_commands(call.state, call.me, name))
    return EmptyReply()


ROUTES = [
    ApiRoute("overview", access.management, {"GET": overview}),
    ApiRoute("cluster-name", access.administrator_to_change, {"GET": show_name, "PUT": put_name}),
]
