"""From a request to a reply: find the verb, run it, and turn what it raises into words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.control.node import Node
from mirrormq.control.protocol import EXIT_SOFTWARE, EXIT_USAGE, ControlError, Request, read_request
from mirrormq.control.verbs import (
    clients,
    definitions,
    listing,
    operations,
    parameters,
    permissions,
    policies,
    queues,
    user_limits,
    users,
    vhosts,
)
from mirrormq.errors import AmqpError
from mirrormq.metadata.store import INTERNAL_USER

Verb = Callable[[Node, Request], Any]

VERBS: dict[str, Verb] = {
    **users.VERBS,
    **user_limits.VERBS,
    **permissions.VERBS,
    **vhosts.VERBS,
    **policies.VERBS,
    **parameters.VERBS,
    **listing.VERBS,
    **clients.VERBS,
    **queues.VERBS,
    **definitions.VERBS,
    **operations.VERBS,
}

ACTOR = "rmq-cli"
"""Who did what a verb does, in RabbitMQ's events."""
OTHER_ACTORS = {"delete_queue": "cli_user", "import_definitions": INTERNAL_USER}
"""Verbs that RabbitMQ's tools carry out under another name."""


def dispatch(node: Node, request: Request | bytes) -> dict[str, Any]:
    """Carry out one request; never raises for what a request can cause."""
    try:
        if isinstance(request, bytes):
            request = read_request(request)
        verb = VERBS.get(request.verb)
        if verb is None:
            raise ControlError(f"This node does not know the verb '{request.verb}'.", EXIT_USAGE)
        with node.metadata.acting_as(OTHER_ACTORS.get(request.verb, ACTOR)):
            return {"ok": True, "result": verb(node, request)}
    except ControlError as error:
        return {"ok": False, "error": error.text, "exit_code": error.exit_code, "bare": error.bare}
    except AmqpError as error:
        return {"ok": False, "error": error.text, "exit_code": EXIT_SOFTWARE, "bare": False}
    except (IndexError, KeyError, TypeError, ValueError) as error:
        text = f"The arguments of '{getattr(request, 'verb', '')}' cannot be used: {error}."
        return {"ok": False, "error": text, "exit_code": EXIT_USAGE, "bare": False}
