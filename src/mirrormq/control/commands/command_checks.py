"""Questions that many verbs ask first, with rabbitmqctl's words for a no."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.control import hints
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_NO_USER, EXIT_UNAVAILABLE, ControlError
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.records import User, Vhost


def user_of(node: ControlledNode, name: str, *, quoted: bool = True) -> User:
    """The user, or the refusal; rabbitmqctl quotes the name in some verbs and not in others."""
    user = node.metadata.state.users.get(name)
    if user is None:
        shown = f'"{name}"' if quoted else name
        raise ControlError(f"User {shown} does not exist", EXIT_NO_USER)
    return user


def vhost_of(node: ControlledNode, name: str) -> Vhost:
    """The vhost, or the refusal as the listing verbs word it."""
    vhost = node.metadata.state.vhosts.get(name)
    if vhost is None:
        raise ControlError(f"Virtual host '{name}' does not exist", EXIT_DATA, released=True)
    return vhost


def json_value(text: str) -> Any:
    """A JSON argument of the command line."""
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except msgspec.DecodeError:
        hint = hints.bad_json(text)
        raise ControlError("JSON decoding error. Reason: badarg", EXIT_UNAVAILABLE, hint=hint) from None


def validation_failed(explanation: str, hint: str = "") -> ControlError:
    """What a parameter's or policy's validator said, as rabbitmqctl shows it."""
    return ControlError(f"Validation failed\n\n{explanation}\n", EXIT_UNAVAILABLE, hint=hint)


def no_such_user(node: ControlledNode, name: str) -> ControlError:
    """The refusal of verbs whose rabbitmqctl shows an Erlang term here."""
    hint = hints.no_such("user", name, node.metadata.state.users, "mirrormqctl list_users")
    return ControlError(f'{{:no_such_user, "{name}"}}', hint=hint)
