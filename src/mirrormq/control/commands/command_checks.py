"""Checks that many commands share, with rabbitmqctl's error texts."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.control import hints
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_NO_USER, EXIT_UNAVAILABLE, ControlError
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.records import User, Vhost


def user_of(node: ControlledNode, name: str, *, quoted: bool = True) -> User:
    """Return the user or raise ControlError; rabbitmqctl quotes the name in some commands only."""
    user = node.metadata.state.users.get(name)
    if user is None:
        shown = f'"{name}"' if quoted else name
        raise ControlError(f"User {shown} does not exist", EXIT_NO_USER)
    return user


def vhost_of(node: ControlledNode, name: str) -> Vhost:
    """Return the vhost or raise ControlError with the text of the listing commands."""
    vhost = node.metadata.state.vhosts.get(name)
    if vhost is None:
        raise ControlError(f"Virtual host '{name}' does not exist", EXIT_DATA, released=True)
    return vhost


def json_value(text: str) -> Any:
    """Decode a JSON argument of the command line."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError:
        hint = hints.bad_json(text)
        raise ControlError("JSON decoding error. Reason: badarg", EXIT_UNAVAILABLE, hint=hint) from None


def validation_failed(explanation: str, hint: str = "") -> ControlError:
    """Return the error of a parameter or policy validator in rabbitmqctl's form."""
    return ControlError(f"Validation failed\n\n{explanation}\n", EXIT_UNAVAILABLE, hint=hint)


def no_such_user(node: ControlledNode, name: str) -> ControlError:
    """Return the error of commands whose rabbitmqctl counterpart prints an Erlang term for an unknown
    user."""
    hint = hints.no_such("user", name, node.metadata.state.users, "mirrormqctl list_users")
    return ControlError(f'{{:no_such_user, "{name}"}}', hint=hint)
