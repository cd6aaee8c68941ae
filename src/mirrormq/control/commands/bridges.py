"""Commands for shovels and federation, and the list of links that other nodes ask for."""

from __future__ import annotations

from typing import Any

from mirrormq.bridges.link_placement import SHOVEL, static_shovel_key, static_shovel_nodes
from mirrormq.control import federation_rows, shovel_rows
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
    """Return the key of the dynamic shovel that the command names, else of the static one."""
    key = (request.vhost, SHOVEL, request.arguments[0])
    if key not in node.metadata.state.parameters:
        if request.arguments[0] in static_shovel_nodes(node.metadata.state):
            return static_shovel_key(request.arguments[0])
        where = f"node '{node.settings.name}' and / or virtual host '{request.vhost}'"
        raise ControlError(
            f"Shovel with the given name was not found on the target {where}", EXIT_UNAVAILABLE
        )
    return key


def delete_shovel(node: NodeShell, request: Request) -> None:
    key = _shovel_key(node, request)
    if refusal := shovel_rows.deletion_refusal(node.metadata.state, key):
        raise ControlError(refusal, EXIT_UNAVAILABLE)
    node.metadata.write(DeleteParameter(*key))


def restart_shovel(node: NodeShell, request: Request) -> None:
    node.metadata.write(RestartLink(*_shovel_key(node, request)))


async def federation_status(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the federation links of the cluster; RabbitMQ shows those of the node only."""
    rows = await list_links(node, Request(LIST_LINKS, [], {}))
    links = federation_rows.all_links(node.metadata.state, rows)
    only_down = request.flag("only-down")
    return [federation_rows.ctl_row(link) for link in links if link.is_down or not only_down]


def restart_federation_link(node: NodeShell, request: Request) -> None:
    for link in federation_rows.all_links(node.metadata.state, ()):
        if link.id == request.arguments[0]:
            node.metadata.write(RestartLink(*link.key))
            return
    raise ControlError("Link with the given ID was not found", EXIT_UNAVAILABLE)


COMMANDS = {
    "federation_status": federation_status,
    "restart_federation_link": restart_federation_link,
    LIST_LINKS: list_links,
    "shovel_status": shovel_status,
    "delete_shovel": delete_shovel,
    "restart_shovel": restart_shovel,
}
