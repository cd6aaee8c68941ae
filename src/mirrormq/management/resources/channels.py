"""Resource: channels of all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrormq.management import access, object_json
from mirrormq.management.api_request import ApiRequest, ListReply
from mirrormq.management.http_errors import not_found
from mirrormq.management.route_table import ApiRoute

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel


def listing(call: ApiRequest, local: list[Channel], rows: list[dict[str, Any]]) -> ListReply:
    """Return channels of this node and rows of other nodes as one list."""
    both: list[Channel | dict[str, Any]] = [*local, *rows]
    items = sorted(both, key=_name)
    return ListReply(
        items, lambda each: each if isinstance(each, dict) else object_json.channel(call, each), _name
    )


def _name(found: Channel | dict[str, Any]) -> str:
    return str(found["name"]) if isinstance(found, dict) else object_json.channel_name(found)


async def list_channels(call: ApiRequest) -> ListReply:
    rows = await call.peer_client.rows("channels", query=call.asked)
    visible = [row for row in rows if object_json.visible(call, row)]
    return listing(call, object_json.channels(object_json.connections(call)), visible)


def here(call: ApiRequest, name: str) -> dict[str, Any] | None:
    """Return the row of one channel of this node."""
    for found in object_json.channels(object_json.connections(call)):
        if object_json.channel_name(found) == name:
            return {
                **object_json.channel(call, found),
                "consumer_details": [
                    object_json.consumer(each.queue, each) for each in found.consumers.values()
                ],
                **_places(call, found),
            }
    return None


def _places(call: ApiRequest, found: Channel) -> dict[str, Any]:
    """Return the channel's statistics per exchange and queue."""
    places = call.statistics.places
    if places is None:
        return {"deliveries": [], "publishes": []}
    return dict(places.of_channel(found, call.ranges.msg_rates))


async def show(call: ApiRequest) -> dict[str, Any]:
    found = here(call, call.name)
    if found is not None:
        return found
    for row in (await call.peer_client.ask_all("channel", name=call.name, query=call.asked)).values():
        if object_json.visible(call, row):
            return dict(row)
    raise not_found()


ROUTES = [
    ApiRoute("channels", access.management, {"GET": list_channels}),
    ApiRoute("channels/{name}", access.management, {"GET": show}),
    ApiRoute("vhosts/{vhost}/channels", access.vhost, {"GET": list_channels}),
]
