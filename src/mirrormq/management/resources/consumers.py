"""Consumers."""

from __future__ import annotations

from mirrormq.management import access, shapes
from mirrormq.management.call import Call, Listing
from mirrormq.management.routing import Route


def list_consumers(call: Call) -> Listing:
    vhosts = set(call.chosen_vhosts())
    found = [
        consumer
        for connection in call.node.broker.connections
        if connection.vhost_name in vhosts and (call.is_monitor or connection.user.name == call.user.name)
        for channel in connection.channels.values()
        for consumer in channel.consumers.values()
    ]
    return Listing(found, lambda each: shapes.consumer(call, each))


ROUTES = [
    Route("consumers", access.vhost, {"GET": list_consumers}),
    Route("consumers/{vhost}", access.vhost, {"GET": list_consumers}),
]
