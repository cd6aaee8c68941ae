"""Statistics that start anew: on one node, or on all.

What is counted belongs to queues, channels and connections and goes on; rates and the past begin again.
"""

from __future__ import annotations

import asyncio

from mirrormq.management import access
from mirrormq.management.answers import bad_request, not_found
from mirrormq.management.call import Call, Done
from mirrormq.management.routing import Route

KIND = "start_anew"
"""What another node is asked for."""


async def everywhere(call: Call) -> Done:
    """A node that does not answer keeps its own."""
    await asyncio.gather(call.statistics.start_anew(), call.elsewhere.ask_all(KIND))
    return Done()


async def on_one_node(call: Call) -> Done:
    if call.name == call.me:
        await call.statistics.start_anew()
    elif call.name not in call.elsewhere.peers:
        raise not_found()
    elif await call.elsewhere.ask(call.name, KIND) is None:
        raise bad_request(f"{call.name} does not answer")
    return Done()


ROUTES = [
    Route("reset", access.administrator, {"DELETE": everywhere}),
    Route("reset/{name}", access.administrator, {"DELETE": on_one_node}),
]
