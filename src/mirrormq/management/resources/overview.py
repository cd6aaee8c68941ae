"""The overview: totals, rates, and what this node is. Who does not monitor sees their own share."""

from __future__ import annotations

from typing import Any

from mirrormq.management import access, shapes
from mirrormq.management.call import Call, Done
from mirrormq.management.resources.nodes import contexts, exchange_types, listeners
from mirrormq.management.routing import Route
from mirrormq.metadata import commands, records

CLUSTER_NAME = "cluster_name"


def cluster_name(call: Call) -> str:
    """As set, as configured, or the node's own name."""
    kept = call.state.global_parameters.get(CLUSTER_NAME)
    return str(kept.value) if kept is not None else call.node.settings.cluster_name or call.node.settings.name


def overview(call: Call) -> dict[str, Any]:
    settings = call.node.settings
    vhosts = list(call.state.vhosts) if call.is_monitor else call.vhosts()
    totals = call.statistics.vhosts(vhosts, call.ranges)
    counted = totals.get("message_stats", {})
    if counted or call.statistics.disk_used:
        counted |= call.statistics.disk(call.ranges)
    connections = shapes.connections(call)
    channels = shapes.channels(call, connections)
    version = settings.product_version
    shown = {
        "management_version": version,
        "rates_mode": "basic",
        "exchange_types": exchange_types(),
        "product_version": version,
        "product_name": settings.product,
        "rabbitmq_version": version,
        "cluster_name": cluster_name(call),
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": counted,
        "queue_totals": {name: value for name, value in totals.items() if name.startswith("messages")},
        "object_totals": {
            "channels": len(channels),
            "connections": len(connections),
            "consumers": sum(len(channel.consumers) for channel in channels),
            "exchanges": sum(len(call.state.exchanges_of(vhost)) for vhost in vhosts),
            "queues": sum(len(call.state.queues_of(vhost)) for vhost in vhosts),
        },
    }
    if call.is_monitor:
        shown |= {
            "node": settings.name,
            "listeners": listeners(call),
            "contexts": [{**each, "node": settings.name, "ssl_opts": []} for each in contexts(call)],
            "statistics_db_event_queue": 0,
            "churn_rates": call.statistics.churn(),
        }
    return shown


def show_name(call: Call) -> dict[str, Any]:
    return {"name": cluster_name(call)}


def put_name(call: Call) -> Done:
    name = call.body("name")["name"]
    call.write(commands.PutGlobalParameter(records.GlobalParameter(CLUSTER_NAME, name)))
    return Done()


ROUTES = [
    Route("overview", access.management, {"GET": overview}),
    Route("cluster-name", access.administrator_to_change, {"GET": show_name, "PUT": put_name}),
]
