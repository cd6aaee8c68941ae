"""Resource: consumers of all nodes' queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrormq.management import access, object_json
from mirrormq.management.api_request import ApiRequest, ListReply
from mirrormq.management.route_table import ApiRoute

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.queues.queue import Queue


def here(call: ApiRequest, vhosts: list[str]) -> list[tuple[Queue, QueueConsumer]]:
    """Return the consumers of this node's queues; their clients may be connected to other nodes."""
    live = call.node.broker.vhosts
    return [
        (queue, consumer)
        for name in vhosts
        if name in live
        for queue in live[name].local_queues()
        for consumer in queue.consumers.all
        if call.is_monitor or consumer.describe().user == call.user.name
    ]


async def list_consumers(call: ApiRequest) -> ListReply:
    vhosts = call.chosen_vhosts()
    rows = await call.peer_client.rows("consumers", vhosts=vhosts)
    theirs = [row for row in rows if call.is_monitor or row["channel_details"]["user"] == call.user.name]
    items: list[Any] = [*here(call, vhosts), *theirs]
    return ListReply(items, lambda each: each if isinstance(each, dict) else object_json.consumer(*each))


ROUTES = [
    ApiRoute("consumers", access.vhost, {"GET": list_consumers}),
    ApiRoute("consumers/{vhost}", access.vhost, {"GET": list_consumers}),
]
