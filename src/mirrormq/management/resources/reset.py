"""Resource: reset of statistics on one node or on all.

Counters belong to queues, channels and connections and are kept; rates and histories start again.
"""

from __future__ import annotations

import asyncio

from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply
from mirrormq.management.http_errors import bad_request, not_found
from mirrormq.management.route_table import ApiRoute

KIND = "start_anew"
"""Kind of the request to other nodes."""


async def on_all_nodes(call: ApiRequest) -> EmptyReply:
    """Reset the statistics of all nodes; a node that does not reply keeps its own."""
    await asyncio.gather(call.statistics.start_anew(), call.peer_client.ask_all(KIND))
    return EmptyReply()


async def on_one_node(call: ApiRequest) -> EmptyReply:
    if call.name == call.me:
        await call.statistics.start_anew()
    elif call.name not in call.peer_client.peers:
        raise not_found()
    elif await call.peer_client.ask(call.name, KIND) is None:
        raise bad_request(f"{call.name} does not reply")
    return EmptyReply()


ROUTES = [
    ApiRoute("reset", access.administrator, {"DELETE": on_all_nodes}),
    ApiRoute("reset/{name}", access.administrator, {"DELETE": on_one_node}),
]
