"""Resource: users."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from mirrormq.auth import passwords
from mirrormq.control.commands.users import hashed
from mirrormq.control.definitions_json import user_row
from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, not_found
from mirrormq.management.resources import permissions, topic_permissions
from mirrormq.management.resources.vhosts import tag_list
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import commands, records


def list_users(call: ApiRequest) -> ListReply:
    return ListReply([call.state.users[name] for name in sorted(call.state.users)], user_row)


def without_permissions(call: ApiRequest) -> ListReply:
    known = {user for user, _ in call.state.permissions}
    return ListReply(
        [call.state.users[name] for name in sorted(call.state.users) if name not in known], user_row
    )


def _record(call: ApiRequest) -> records.User:
    user = call.state.users.get(call.name)
    if user is None:
        raise not_found()
    return user


def show(call: ApiRequest) -> dict[str, Any]:
    return user_row(_record(call))


async def put(call: ApiRequest) -> EmptyReply:
    body = call.body()
    if "tags" not in body:
        raise bad_request("tags_not_present")
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    tags = tag_list(body["tags"])
    password_hash, algorithm = await _password(body)
    before = call.state.users.get(call.name)
    limits = {} if before is None else before.limits
    call.write(commands.PutUser(records.User(call.name, password_hash, algorithm, tags, limits)))
    return EmptyReply(CREATED) if before is None else EmptyReply()


async def _password(body: dict[str, Any]) -> tuple[str, str]:
    """Return hash and algorithm of a password. Hashing is slow by design, so it runs off the event loop.
    Without a password the user cannot log in."""
    if not isinstance(body.get("password", ""), str):
        raise bad_request(["not_string", "password"])
    if body.get("password"):
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, hashed, str(body["password"]))
        return found, passwords.DEFAULT_ALGORITHM
    given = body.get("password_hash", "")
    algorithm = body.get("hashing_algorithm", passwords.SHA256) if given else passwords.SHA256
    if not isinstance(algorithm, str) or algorithm not in passwords.ALGORITHMS:
        raise bad_request(f"hashing algorithm {algorithm} is not known")
    try:
        base64.b64decode(given, validate=True)
    except (TypeError, ValueError):
        raise bad_request(["not_base64", given]) from None
    return str(given), algorithm


def delete(call: ApiRequest) -> EmptyReply:
    _record(call)
    call.write(commands.DeleteUser(call.name))
    return EmptyReply()


def bulk_delete(call: ApiRequest) -> EmptyReply:
    names = call.body("users")["users"]
    if not isinstance(names, list):
        raise bad_request(["not_list", names])
    for name in names:
        if not isinstance(name, str) or name not in call.state.users:
            raise bad_request(["no_such_user", name])
        call.write(commands.DeleteUser(name))
    return EmptyReply()


def permissions_of(call: ApiRequest) -> ListReply:
    _record(call)
    return permissions.listing(call, lambda found: found.user == call.name)


def topic_permissions_of(call: ApiRequest) -> ListReply:
    _record(call)
    return topic_permissions.listing(call, lambda found: found.user == call.name)


ROUTES = [
    ApiRoute("users", access.administrator, {"GET": list_users}),
    ApiRoute("users/without-permissions", access.administrator, {"GET": without_permissions}),
    ApiRoute("users/bulk-delete", access.administrator, {"POST": bulk_delete}),
    ApiRoute("users/{name}", access.administrator, {"GET": show, "PUT": put, "DELETE": delete}),
    ApiRoute("users/{name}/permissions", access.administrator, {"GET": permissions_of}),
    ApiRoute("users/{name}/topic-permissions", access.administrator, {"GET": topic_permissions_of}),
]
