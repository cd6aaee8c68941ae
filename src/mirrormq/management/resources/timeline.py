"""The failover timeline."""

from __future__ import annotations

from mirrormq.management import access
from mirrormq.management.call import Call, Listing
from mirrormq.management.routing import Route
from mirrormq.management.timeline import joined


async def timeline(call: Call) -> Listing:
    """The stories of all nodes as one, the newest last."""
    told = await call.elsewhere.ask_all("timeline")
    return Listing(joined([call.node.timeline.events, *told.values()]), lambda event: event)


ROUTES = [Route("mirrormq/timeline", access.monitor, {"GET": timeline})]
