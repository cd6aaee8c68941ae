"""What one node's HTTP API asks of another node."""

from __future__ import annotations

from mirrormq.control.node import Shell
from mirrormq.control.protocol import Request


async def management(node: Shell, request: Request) -> str:
    """The answer as JSON in a text: it is made in slices there, and read in one go where it was asked for."""
    return await node.manage(request.arguments[0], request.options)


VERBS = {"management": management}
