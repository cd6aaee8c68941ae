"""Commands that list and close connections, channels and consumers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_fanout import HERE, on_all_nodes, rows_of_all_nodes
from mirrormq.control.node_interface import NodeShell


async def list_connections(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    return await rows_of_all_nodes(node, request, node.live.connections)


async def list_channels(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    return await rows_of_all_nodes(node, request, node.live.channels)


async def list_consumers(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    live, vhost = node.live, request.vhost
    return await rows_of_all_nodes(node, request, lambda: live.consumers(vhost))


async def close_connection(node: NodeShell, request: Request) -> None:
    """Close the connection with this pid. As in rabbitmqctl, a well-formed pid without a connection is no
    error."""
    pid, explanation = request.arguments
    if not (pid.startswith("<") and pid.endswith(">") and pid.count(".") >= 3):
        hint = "A pid is written as 'mirrormqctl list_connections pid' shows it, with its < and >."
        raise ControlError(f'Error:\n{{:invalid_pid_syntax, "{pid}"}}', hint=hint)
    live = node.live
    await on_all_nodes(node, request, lambda: live.close_connections(explanation, pid=pid))


async def close_all_connections(node: NodeShell, request: Request) -> int | str:
    """Close all connections of a vhost on every node, or with --global all connections of this node."""
    limit = int(request.options.get("limit", 0))
    vhost = "" if request.flag("global") else request.vhost
    closed = node.live.close_connections(request.arguments[0], vhost=vhost, limit=limit)
    if request.flag(HERE):
        return closed
    if vhost:
        closed += await _close_on_peers(node, request, max(limit - closed, 0) if limit else None)
    return f"Closed {closed} connections"


async def _close_on_peers(node: NodeShell, request: Request, left: int | None) -> int:
    """Close connections on the other nodes; one node after the other if there is a limit."""
    if left is None:
        return sum((await on_all_nodes(node, request, lambda: 0))[1:])
    # One after the other: the limit left for a node depends on the count of the previous one.
    closed = 0
    for peer in node.cluster.running:
        if peer != node.settings.name and closed < left:
            options = {**request.options, "limit": left - closed, HERE: True}
            closed += await node.cluster.ask(peer, replace(request, options=options))
    return closed


async def close_all_user_connections(node: NodeShell, request: Request) -> None:
    user, explanation = request.arguments
    live = node.live
    await on_all_nodes(node, request, lambda: live.close_connections(explanation, user=user))


COMMANDS = {
    "list_connections": list_connections,
    "list_channels": list_channels,
    "list_consumers": list_consumers,
    "close_connection": close_connection,
    "close_all_connections": close_all_connections,
    "close_all_user_connections": close_all_user_connections,
}
