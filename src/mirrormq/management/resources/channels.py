"""Channels."""

from __future__ import annotations

from typing import Any

from mirrormq.management import access, shapes
from mirrormq.management.answers import not_found
from mirrormq.management.call import Call, Listing
from mirrormq.management.routing import Route


def list_channels(call: Call) -> Listing:
    found = shapes.channels(call, shapes.connections(call))
    return Listing(found, lambda each: shapes.channel(call, each), shapes.channel_name)


def show(call: Call) -> dict[str, Any]:
    for found in shapes.channels(call, shapes.connections(call)):
        if shapes.channel_name(found) == call.name:
            return {
                **shapes.channel(call, found),
                "consumer_details": [shapes.consumer(each.queue, each) for each in found.consumers.values()],
                "deliveries": [],
                "publishes": [],
            }
    raise not_found()


ROUTES = [
    Route("channels", access.management, {"GET": list_channels}),
    Route("channels/{name}", access.management, {"GET": show}),
    Route("vhosts/{vhost}/channels", access.visible_vhost, {"GET": list_channels}),
]
