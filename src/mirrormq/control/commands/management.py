"""Internal command that carries requests between the HTTP APIs of two nodes."""

from __future__ import annotations

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell


async def management(node: NodeShell, request: Request) -> str:
    """Return the reply as JSON text: this node encodes it in chunks, and the requesting node decodes it
    once."""
    return await node.manage(request.arguments[0], request.options)


COMMANDS = {"management": management}
