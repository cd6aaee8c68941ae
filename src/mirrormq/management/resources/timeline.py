"""Resource: failover timeline."""

from __future__ import annotations

from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, ListReply
from mirrormq.management.failover_timeline import joined
from mirrormq.management.route_table import ApiRoute


async def timeline(call: ApiRequest) -> ListReply:
    """Return the merged timelines of all nodes, the newest event last."""
    replies = await call.peer_client.ask_all("timeline")
    return ListReply(joined([call.node.timeline.events, *replies.values()]), lambda event: event)


ROUTES = [ApiRoute("mirrormq/timeline", access.monitor, {"GET": timeline})]
