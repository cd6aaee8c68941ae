"""Resource: login attempts of a node's clients. Their sources are not tracked."""

from __future__ import annotations

from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply
from mirrormq.management.http_errors import not_found
from mirrormq.management.route_table import ApiRoute


async def _ask(call: ApiRequest, command: str) -> Any:
    if call.name != call.me and call.name not in call.peer_client.peers:
        raise not_found()
    return await call.node.carry_out(Request(command), call.name)


async def attempts(call: ApiRequest) -> list[dict[str, Any]]:
    """Return a row for each protocol."""
    found: list[dict[str, Any]] = await _ask(call, "list_node_auth_attempt_stats")
    return found


async def forget(call: ApiRequest) -> EmptyReply:
    """Reset the counters."""
    await _ask(call, "reset_node_auth_attempt_metrics")
    return EmptyReply()


def by_source(call: ApiRequest) -> list[dict[str, Any]]:
    """Return an empty list, as RabbitMQ does unless it tracks sources."""
    return []


def forget_sources(call: ApiRequest) -> EmptyReply:
    """Accept the request: there are no sources to reset."""
    return EmptyReply()


ROUTES = [
    ApiRoute("auth/attempts/{name}", access.monitor, {"GET": attempts, "DELETE": forget}),
    ApiRoute("auth/attempts/{name}/source", access.monitor, {"GET": by_source, "DELETE": forget_sources}),
]
