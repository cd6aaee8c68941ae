"""Fan-out of a command to all running nodes, so that `list_connections` and similar commands show the
cluster.

The node that receives the request produces its own part and forwards the request with the option `here`,
which limits a peer to its own part. A peer that does not reply contributes no rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell

HERE = "here"


async def on_all_nodes(node: NodeShell, request: Request, own: Callable[[], Any]) -> list[Any]:
    """Return this node's part, followed by the parts of the other nodes."""
    if request.flag(HERE):
        return [own()]
    passed_on = replace(request, options={**request.options, HERE: True})
    return [own(), *await node.cluster.ask_other_nodes(passed_on)]


async def rows_of_all_nodes(
    node: NodeShell, request: Request, own: Callable[[], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the rows of all nodes."""
    return [row for part in await on_all_nodes(node, request, own) for row in part]


async def at(node: NodeShell, where: str, request: Request, own: Callable[[], Any]) -> Any:
    """Run a command on one node, which may be this one."""
    if where == node.settings.name or request.flag(HERE):
        return own()
    return await node.cluster.ask(where, replace(request, options={**request.options, HERE: True}))
