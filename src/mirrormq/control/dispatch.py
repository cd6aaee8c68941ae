"""From a request to a reply: find the verb, run it, and turn what it raises into words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mirrormq.control.commands import (
    add_queue,
    clients,
    cluster,
    definitions,
    diagnostics,
    health,
    jobs,
    leases,
    lifecycle,
    list_commands,
    log_commands,
    management,
    mirrors,
    node_operations,
    orphans,
    parameters,
    permissions,
    policies,
    queues,
    scrub,
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
"""Gives the result, or an awaitable of it; one that writes metadata after it has waited says for whom."""

COMMANDS: dict[str, CtlCommand] = {
    **users.COMMANDS,
    **user_limits.COMMANDS,
    **permissions.COMMANDS,
    **vhosts.COMMANDS,
    **policies.COMMANDS,
    **parameters.COMMANDS,
    **list_commands.COMMANDS,
    **log_commands.COMMANDS,
    **management.COMMANDS,
    **clients.COMMANDS,
    **queues.COMMANDS,
    **add_queue.COMMANDS,
    **definitions.COMMANDS,
    **node_operations.COMMANDS,
    **lifecycle.COMMANDS,
    **cluster.COMMANDS,
    **mirrors.COMMANDS,
    **health.COMMANDS,
    **diagnostics.COMMANDS,
    **orphans.COMMANDS,
    **leases.COMMANDS,
    **jobs.COMMANDS,
    **scrub.COMMANDS,
}

ACTOR = "rmq-cli"
"""Who did what a verb does, in RabbitMQ's events."""
OTHER_ACTORS = {"import_definitions": INTERNAL_USER}
"""Verbs that RabbitMQ's tools carry out under another name."""


async def answer(node: NodeShell, request: Request) -> dict[str, Any]:
    """Carry out one request to its end; never raises for what a request can cause."""
    before = node.metadata.last_written
    try:
        result = _begin(node, request)
        if inspect.isawaitable(result):
            result = await result
        if node.metadata.last_written != before:
            await node.settled()
        return {"ok": True, "result": result}
    except CAUSED_BY_REQUESTS as error:
        return _refusal(request.verb, error)


def _begin(node: NodeShell, request: Request) -> Any:
    verb = COMMANDS.get(request.verb)
    if verb is None:
        raise ControlError(f"This node does not know the verb '{request.verb}'.", EXIT_USAGE)
    refusal = objection(request.verb, node.app_state.value)
    if refusal is not None:
        raise ControlError(refusal, EXIT_USAGE)
    with node.metadata.acting_as(OTHER_ACTORS.get(request.verb, ACTOR)):
        return verb(node, request)


CAUSED_BY_REQUESTS = (ControlError, AmqpError, IndexError, KeyError, TypeError, ValueError)


def _refusal(verb: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, ControlError):
        return error.reply()
    if isinstance(error, AmqpError):
        return {"ok": False, "error": error.text, "exit_code": EXIT_SOFTWARE, "bare": False}
    text = f"The arguments of '{verb}' cannot be used: {error}."
    return {"ok": False, "error": text, "exit_code": EXIT_USAGE, "bare": False}
