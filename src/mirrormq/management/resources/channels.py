"""Channels, of all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrormq.management import access, shapes
from mirrormq.management.answers import not_found
from mirrormq.management.call import Call, Listing
from mirrormq.management.routing import Route

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel


def listing(call: Call, local: list[Channel], rows: list[dict[str, Any]]) -> Listing:
    """Channels of this node and rows of others' as one list."""
    both: list[Channel | dict[str, Any]] = [*local, *rows]
    items = sorted(both, key=_name)
    return Listing(items, lambda each: each if isinstance(each, dict) else shapes.channel(call, each), _name)


def _name(found: Channel | dict[str, Any]) -> str:
    return str(found["name"]) if isinstance(found, dict) else shapes.channel_name(found)


async def list_channels(call: Call) -> Listing:
    rows = await call.elsewhere.rows("channels", query=call.asked)
    visible = [row for row in rows if shapes.visible(call, row)]
    return listing(call, shapes.channels(shapes.connections(call)), visible)


def here(call: Call, name: str) -> dict[str, Any] | None:
    """One channel of this node."""
    for found in shapes.channels(shapes.connections(call)):
        if shapes.channel_name(found) == name:
            return {
                **shapes.channel(call, found),
                "consumer_details": [shapes.consumer(each.queue, each) for each in found.consumers.values()],
                **_places(call, found),
            }
    return None


def _places(call: Call, found: Channel) -> dict[str, Any]:
    """What it did where."""
    places = call.statistics.places
    if places is None:
        return {"deliveries": [], "publishes": []}
    return dict(places.of_channel(found, call.ranges.msg_rates))


async def show(call: Call) -> dict[str, Any]:
    found = here(call, call.name)
    if found is not None:
        return found
    for row in (await call.elsewhere.ask_all("channel", name=call.name, query=call.asked)).values():
        if shapes.visible(call, row):
            return dict(row)
    raise not_found()


ROUTES = [
    Route("channels", access.management, {"GET": list_channels}),
    Route("channels/{name}", access.management, {"GET": show}),
    Route("vhosts/{vhost}/channels", access.vhost, {"GET": list_channels}),
]
