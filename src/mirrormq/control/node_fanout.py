"""A verb carried out on every node that runs: what `list_connections` and its like show is the cluster's.

The node that was asked does its own part and passes the request on with the option `here`, which tells the
others to do only theirs. A node that does not answer has nothing to show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell

HERE = "here"


async def on_all_nodes(node: NodeShell, request: Request, own: Callable[[], Any]) -> list[Any]:
    """This node's own part, and behind it those of the others."""
    if request.flag(HERE):
        return [own()]
    passed_on = replace(request, options={**request.options, HERE: True})
    return [own(), *await node.cluster.ask_others(passed_on)]


async def rows_of_all_nodes(
    node: NodeShell, request: Request, own: Callable[[], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The rows of all nodes."""
    return [row for part in await on_all_nodes(node, request, own) for row in part]


async def at(node: NodeShell, where: str, request: Request, own: Callable[[], Any]) -> Any:
    """The part of one node, which may be this one."""
    if where == node.settings.name or request.flag(HERE):
        return own()
    return await node.cluster.ask(where, replace(request, options={**request.options, HERE: True}))
