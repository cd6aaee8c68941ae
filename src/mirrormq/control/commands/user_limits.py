"""Commands for connection and channel limits of users."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.auth.limit_checks import USER_LIMITS
from mirrormq.control import hints
from mirrormq.control.commands.command_checks import json_value, no_such_user
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.commands import PutUser
from mirrormq.metadata.records import User
from mirrormq.wire.erlang_terms import properties, term


def _user(node: ControlledNode, name: str) -> User:
    user = node.metadata.state.users.get(name)
    if user is None:
        raise no_such_user(node, name)
    return user


def _checked(definition: Any) -> dict[str, int]:
    if not isinstance(definition, dict):
        raise ControlError(f"limits should be an object, actually was {definition!r}")
    if unknown := {name: value for name, value in definition.items() if name not in USER_LIMITS}:
        hint = hints.no_such("limit", next(iter(unknown)), USER_LIMITS)
        raise ControlError(f"Unrecognised terms {properties(unknown)} in user-limits", hint=hint)
    for name, value in definition.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ControlError(f"{name} should be a number, actually was {term(value)}")
    return definition


def set_user_limits(node: ControlledNode, request: Request) -> None:
    """Set the given limits; the user's other limits stay unchanged."""
    name, definition = request.arguments
    limits = _checked(json_value(definition))
    user = _user(node, name)
    node.metadata.write(PutUser(msgspec.structs.replace(user, limits={**user.limits, **limits})))


def clear_user_limits(node: ControlledNode, request: Request) -> None:
    name, kind = request.arguments
    user = _user(node, name)
    kept = {} if kind == "all" else {key: value for key, value in user.limits.items() if key != kind}
    node.metadata.write(PutUser(msgspec.structs.replace(user, limits=kept)))


def list_user_limits(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    if request.flag("global"):
        return [
            {"user": user.name, "limits": user.limits}
            for user in node.metadata.state.users.values()
            if user.limits
        ]
    user = _user(node, str(request.options.get("user", "guest")))
    return [{"user": user.name, "limits": user.limits}]


COMMANDS = {
    "set_user_limits": set_user_limits,
    "clear_user_limits": clear_user_limits,
    "list_user_limits": list_user_limits,
}
