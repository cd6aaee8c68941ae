"""What one node's HTTP API asks of another node."""

from __future__ import annotations

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell


async def management(node: NodeShell, request: Request) -> str:
    """The answer as JSON in a text: it is made in slices there, and read in one go where it was asked for."""
    return await node.manage(request.arguments[0], request.options)


COMMANDS = {"management": management}
