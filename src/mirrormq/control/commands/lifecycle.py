"""Stopping and starting the part of a node that serves clients, while its process stays."""

from __future__ import annotations

from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import NodeShell
from mirrormq.errors import DamageError, StartError


async def start_app(node: NodeShell, request: Request) -> None:
    """Starting a node that serves clients changes nothing and is no error; so it is with stopping."""
    try:
        await node.start_app()
    except (DamageError, OSError, StartError) as error:
        raise ControlError(f"The node cannot start to serve clients: {error}") from None


async def stop_app(node: NodeShell, request: Request) -> None:
    await node.stop_app()


COMMANDS = {"start_app": start_app, "stop_app": stop_app}
