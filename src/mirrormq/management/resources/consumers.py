"""Consumers."""

from __future__ import annotations

from mirrormq.management import access, shapes
from mirrormq.management.call import Call, Listing
from mirrormq.management.routing import Route


def list_consumers(call: Call) -> Listing:
    """The consumers of this node's queues, wherever their clients are connected."""
    vhosts = call.node.broker.vhosts
    found = [
        (queue, consumer)
        for name in call.chosen_vhosts()
        for queue in vhosts[name].local_queues()
        for consumer in queue.consumers.all
        if call.is_monitor or consumer.describe().user == call.user.name
    ]
    return Listing(found, lambda each: shapes.consumer(*each))


ROUTES = [
    Route("consumers", access.vhost, {"GET": list_consumers}),
    Route("consumers/{vhost}", access.vhost, {"GET": list_consumers}),
]
