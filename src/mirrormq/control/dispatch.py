"""From a request to a reply: find the verb, run it, and turn what it raises into words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mirrormq.control.node import Shell
from mirrormq.control.protocol import EXIT_SOFTWARE, EXIT_USAGE, ControlError, Request
from mirrormq.control.requirements import objection
from mirrormq.control.verbs import (
    add_queue,
    clients,
    cluster,
    definitions,
    diagnostics,
    health,
    jobs,
    leases,
    lifecycle,
    listing,
    logs,
    management,
    mirrors,
    operations,
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
from mirrormq.errors import AmqpError
from mirrormq.metadata.store import INTERNAL_USER

Verb = Callable[[Shell, Request], Any]
"""Gives the result, or an awaitable of it; one that writes metadata after it has waited says for whom."""

VERBS: dict[str, Verb] = {
    **users.VERBS,
    **user_limits.VERBS,
    **permissions.VERBS,
    **vhosts.VERBS,
    **policies.VERBS,
    **parameters.VERBS,
    **listing.VERBS,
    **logs.VERBS,
    **management.VERBS,
    **clients.VERBS,
    **queues.VERBS,
    **add_queue.VERBS,
    **definitions.VERBS,
    **operations.VERBS,
    **lifecycle.VERBS,
    **cluster.VERBS,
    **mirrors.VERBS,
    **health.VERBS,
    **diagnostics.VERBS,
    **orphans.VERBS,
    **leases.VERBS,
    **jobs.VERBS,
    **scrub.VERBS,
}

ACTOR = "rmq-cli"
"""Who did what a verb does, in RabbitMQ's events."""
OTHER_ACTORS = {"import_definitions": INTERNAL_USER}
"""Verbs that RabbitMQ's tools carry out under another name."""


async def answer(node: Shell, request: Request) -> dict[str, Any]:
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


def _begin(node: Shell, request: Request) -> Any:
    verb = VERBS.get(request.verb)
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
