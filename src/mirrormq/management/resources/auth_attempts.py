"""How often clients of a node logged in, or tried to. Where they came from is not tracked."""

from __future__ import annotations

from typing import Any

from mirrormq.control.protocol import Request
from mirrormq.management import access
from mirrormq.management.answers import not_found
from mirrormq.management.call import Call, Done
from mirrormq.management.routing import Route


async def _ask(call: Call, verb: str) -> Any:
    if call.name != call.me and call.name not in call.elsewhere.peers:
        raise not_found()
    return await call.node.carry_out(Request(verb), call.name)


async def attempts(call: Call) -> list[dict[str, Any]]:
    """A row for each protocol."""
    found: list[dict[str, Any]] = await _ask(call, "list_node_auth_attempt_stats")
    return found


async def forget(call: Call) -> Done:
    """Count from nought again."""
    await _ask(call, "reset_node_auth_attempt_metrics")
    return Done()


def by_source(call: Call) -> list[dict[str, Any]]:
    """As in a RabbitMQ that was not told to track sources."""
    return []


def forget_sources(call: Call) -> Done:
    """There are none."""
    return Done()


ROUTES = [
    Route("auth/attempts/{name}", access.monitor, {"GET": attempts, "DELETE": forget}),
    Route("auth/attempts/{name}/source", access.monitor, {"GET": by_source, "DELETE": forget_sources}),
]
