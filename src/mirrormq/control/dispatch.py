"""Dispatch of control requests: find the command, run it, and turn its errors into replies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mirrormq.control.commands import (
    add_queue,
    bridges,
    clients,
    cluster,
    definitions,
    diagnostics,
    health,
    leases,
    list_commands,
    management,
    mirrors,
    node_operations,
    orphans,
    parameters,
    permissions,
    policies,
    queues,
    user_limits,
    users,
    vhosts,
)
from mirrormq.control.control_protocol import EXIT_SOFTWARE, EXIT_USAGE, ControlError, Request
from mirrormq.control.node_interface import NodeShell
from mirrormq.control.preconditions import objection
from mirrormq.errors import AmqpError
from mirrormq.metadata.store import INTERNAL_USER

CtlCommand = Callable[[NodeShell, Request], Any]
"""Function of a node and a request that returns the result or an awaitable. A command that writes metadata
after an await sets the acting user itself."""

COMMANDS: dict[str, CtlCommand] = {
    **users.COMMANDS,
    **user_limits.COMMANDS,
    **permissions.COMMANDS,
    **vhosts.COMMANDS,
    **policies.COMMANDS,
    **parameters.COMMANDS,
    **list_commands.COMMANDS,
    **management.COMMANDS,
    **clients.COMMANDS,
    **queues.COMMANDS,
    **add_queue.COMMANDS,
    **definitions.COMMANDS,
    **node_operations.COMMANDS,
    **cluster.COMMANDS,
    **mirrors.COMMANDS,
    **health.COMMANDS,
    **diagnostics.COMMANDS,
    **orphans.COMMANDS,
    **leases.COMMANDS,
    **bridges.COMMANDS,
}

ACTOR = "rmq-cli"
"""Acting user of commands in RabbitMQ's events."""
OTHER_ACTORS = {"import_definitions": INTERNAL_USER}
"""Commands that RabbitMQ's tools run under another acting user."""


async def answer(node: NodeShell, request: Request) -> dict[str, Any]:
    """Run one request and return its reply; never raise for an error that a request can cause."""
    before = node.metadata.last_written
    try:
        result = _begin(node, request)
        if inspect.isawaitable(result):
            result = await result
        # A reply after a metadata write waits for the commit, so that the operator sees only agreed changes.
        if node.metadata.last_written != before:
            await node.settled()
        return {"ok": True, "result": result}
    except CAUSED_BY_REQUESTS as error:
        return _refusal(request.verb, error)


def _begin(node: NodeShell, request: Request) -> Any:
    command = COMMANDS.get(request.verb)
    if command is None:
        raise ControlError(
            f"This node does not know the command '{request.verb}': its version may be older than the tool.",
            EXIT_USAGE,
        )
    refusal = objection(request.verb, node.app_state.value)
    if refusal is not None:
        raise ControlError(refusal, EXIT_USAGE)
    with node.metadata.acting_as(OTHER_ACTORS.get(request.verb, ACTOR)):
        return command(node, request)


CAUSED_BY_REQUESTS = (ControlError, AmqpError, IndexError, KeyError, TypeError, ValueError)


def _refusal(command: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, ControlError):
        return error.reply()
    if isinstance(error, AmqpError):
        return {"ok": False, "error": error.text, "exit_code": EXIT_SOFTWARE, "bare": False}
    text = f"The arguments of '{command}' are invalid: {error}."
    return {"ok": False, "error": text, "exit_code": EXIT_USAGE, "bare": False}
