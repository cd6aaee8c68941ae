"""Commands for users, their passwords and tags.

Hashing a password takes about 40 ms by design, so it must not block the event loop. The server of the
control socket first runs `prepare` in a thread, and the command reads the result from the request's
options.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import msgspec

from mirrormq.auth import passwords
from mirrormq.control.commands.command_checks import no_such_user, user_of
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_SOFTWARE, ControlError, Request
from mirrormq.control.hints import suggestion
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.commands import DeleteUser, PutUser
from mirrormq.metadata.records import User

HASHED = "password-hash"
VERIFIED = "password-verified"
ADMINISTRATOR = "administrator"
KNOWN_TAGS = (ADMINISTRATOR, "impersonator", "management", "monitoring", "policymaker")
"""Tags that give rights. RabbitMQ accepts any other tag too, and so does this node."""


def prepare(node: ControlledNode, request: Request) -> Request:
    """Hash or verify the request's password; safe to call in a thread."""
    if request.verb in ("add_user", "change_password") and len(request.arguments) == 2:
        return replace(request, options={**request.options, HASHED: hashed(request.arguments[1])})
    if request.verb == "authenticate_user" and len(request.arguments) == 2:
        return replace(request, options={**request.options, VERIFIED: _verified(node, *request.arguments)})
    return request


def hashed(password: str) -> str:
    """Return the stored form of a new password."""
    salt = os.urandom(passwords.salt_bytes())
    return passwords.hash_password(password.encode("utf-8", "surrogateescape"), salt)


def rabbit_hash(password: str) -> str:
    """Return a password hash in RabbitMQ's default form."""
    raw = password.encode("utf-8", "surrogateescape")
    return passwords.hash_password(raw, os.urandom(passwords.salt_bytes(passwords.SHA256)), passwords.SHA256)


def _verified(node: ControlledNode, name: str, password: str) -> bool:
    user = node.metadata.state.users.get(name)
    raw = password.encode("utf-8", "surrogateescape")
    return user is not None and passwords.verify_password(raw, user.password_hash, user.hashing_algorithm)


def add_user(node: ControlledNode, request: Request) -> None:
    name = request.arguments[0]
    if name in node.metadata.state.users:
        raise ControlError(f'User "{name}" already exists', EXIT_SOFTWARE)
    algorithm = passwords.DEFAULT_ALGORITHM
    node.metadata.write(PutUser(User(name, _new_hash(request), algorithm)))


def _new_hash(request: Request) -> str:
    if not request.arguments[1]:
        raise ControlError("Password is not provided via argument or stdin", EXIT_DATA)
    return str(request.options.get(HASHED) or hashed(request.arguments[1]))


def delete_user(node: ControlledNode, request: Request) -> None:
    user_of(node, request.arguments[0])
    node.metadata.write(DeleteUser(request.arguments[0]))


def change_password(node: ControlledNode, request: Request) -> None:
    user = user_of(node, request.arguments[0])
    algorithm = passwords.DEFAULT_ALGORITHM
    changed = msgspec.structs.replace(user, password_hash=_new_hash(request), hashing_algorithm=algorithm)
    node.metadata.write(PutUser(changed))


def clear_password(node: ControlledNode, request: Request) -> None:
    user = node.metadata.state.users.get(request.arguments[0])
    if user is None:
        raise no_such_user(node, request.arguments[0])
    node.metadata.write(PutUser(msgspec.structs.replace(user, password_hash="")))


def authenticate_user(node: ControlledNode, request: Request) -> str:
    name, password = request.arguments
    verified = request.options.get(VERIFIED)
    if verified is None:
        verified = _verified(node, name, password)
    if not verified:
        text = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        raise ControlError(text, EXIT_DATA)
    return "Success"


def set_user_tags(node: ControlledNode, request: Request) -> dict[str, str] | None:
    name, *tags = request.arguments
    node.metadata.write(PutUser(msgspec.structs.replace(user_of(node, name), tags=tags)))
    warnings = [
        f"Tag '{tag}' gives no rights; the nearest that does is '{near}'."
        for tag in tags
        if tag not in KNOWN_TAGS and (near := suggestion(tag, KNOWN_TAGS)) is not None
    ]
    if not any(ADMINISTRATOR in user.tags for user in node.metadata.state.users.values()):
        warnings.append(
            f"No user has the tag '{ADMINISTRATOR}': the page and the HTTP API cannot be administered until "
            f"'mirrormqctl set_user_tags USER {ADMINISTRATOR}'."
        )
    return {"warning": " ".join(warnings)} if warnings else None


def list_users(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    return [{"user": user.name, "tags": user.tags} for user in node.metadata.state.users.values()]


COMMANDS = {
    "add_user": add_user,
    "delete_user": delete_user,
    "change_password": change_password,
    "clear_password": clear_password,
    "authenticate_user": authenticate_user,
    "set_user_tags": set_user_tags,
    "list_users": list_users,
}
