"""Commands for shovels, and the list of links that other nodes ask for."""

from __future__ import annotations

from typing import Any

from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.control import shovel_rows
from mirrormq.control.control_protocol import EXIT_UNAVAILABLE, ControlError, Request
from mirrormq.control.node_fanout import rows_of_all_nodes
from mirrormq.control.node_interface import NodeShell
from mirrormq.metadata.commands import DeleteParameter, RestartLink
from mirrormq.metadata.link_records import LinkKey

LIST_LINKS = "list_links"


async def list_links(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the links of all nodes with their status."""
    return await rows_of_all_nodes(node, request, node.live.links)


async def shovel_status(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the shovels of the cluster; RabbitMQ shows those of the node only."""
    links = await list_links(node, Request(LIST_LINKS, [], {}))
    return [shovel_rows.ctl_row(shovel) for shovel in shovel_rows.all_shovels(node.metadata.state, links)]


def _shovel_key(node: NodeShell, request: Request) -> LinkKey:
    key = (request.vhost, SHOVEL, request.arguments[0])
    if key not in node.metadata.state.parameters:
        where = f"node '{node.settings.name}' and / or virtual host '{request.vhost}'"
        raise ControlError(
            f"Shovel with the given name was not found on the target {where}", EXIT_UNAVAILABLE
        )
    return key


def delete_shovel(node: NodeShell, request: Request) -> None:
    node.metadata.write(DeleteParameter(*_shovel_key(node, request)))


def restart_shovel(node: NodeShell, request: Request) -> None:
    node.metadata.write(RestartLink(*_shovel_key(node, request)))


COMMANDS = {
    LIST_LINKS: list_links,
    "shovel_status": shovel_status,
    "delete_shovel": delete_shovel,
    "restart_shovel": restart_shovel,
}
