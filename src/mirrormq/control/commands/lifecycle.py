"""Commands that start and stop the application while the node's process stays."""

from __future__ import annotations

from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import NodeShell
from mirrormq.errors import DamageError, StartError


async def start_app(node: NodeShell, request: Request) -> None:
    """Start the application; no error if it already runs."""
    try:
        await node.start_app()
    except (DamageError, OSError, StartError) as error:
        raise ControlError(f"The application cannot start: {error}") from None


async def stop_app(node: NodeShell, request: Request) -> None:
    await node.stop_app()


COMMANDS = {"start_app": start_app, "stop_app": stop_app}
