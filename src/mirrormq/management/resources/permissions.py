"""Resource: permissions of users in vhosts: configure, write and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mirrormq.auth import patterns
from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import HttpRefusal, bad_request, not_found
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import commands, records


def listing(call: ApiRequest, wanted: Callable[[records.Permission], bool]) -> ListReply:
    found = [each for each in call.state.permissions.values() if wanted(each)]
    return ListReply(sorted(found, key=lambda each: (each.vhost, each.user)), msgspec.structs.asdict)


def list_permissions(call: ApiRequest) -> ListReply:
    return listing(call, lambda found: True)


def _record(call: ApiRequest) -> records.Permission:
    record = call.state.permissions.get((call.name, call.vhost))
    if record is None:
        raise not_found()
    return record


def show(call: ApiRequest) -> dict[str, Any]:
    return msgspec.structs.asdict(_record(call))


def check_ends(call: ApiRequest) -> None:
    """Check that the user and the vhost exist."""
    if call.vhost not in call.state.vhosts or call.name not in call.state.users:
        raise bad_request("vhost_or_user_not_found")


def check_pattern(pattern: Any, shown: Callable[[str], Any]) -> str:
    """Return a valid pattern; RabbitMQ's reason writes texts as lists of characters."""
    if not isinstance(pattern, str):
        raise bad_request(["not_string", pattern])
    try:
        patterns.check(pattern)
    except patterns.PatternInvalid as error:
        raise _invalid(shown(pattern), error) from None
    return pattern


def _invalid(pattern: Any, error: patterns.PatternInvalid) -> HttpRefusal:
    return bad_request(["invalid_regexp", pattern, [list(error.text.encode()), error.position]])


def put(call: ApiRequest) -> EmptyReply:
    check_ends(call)
    body = call.body("configure", "write", "read")
    rights = [
        check_pattern(body[name], lambda text: list(text.encode())) for name in ("configure", "write", "read")
    ]
    existed = (call.name, call.vhost) in call.state.permissions
    call.write(commands.PutPermission(records.Permission(call.name, call.vhost, *rights)))
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete(call: ApiRequest) -> EmptyReply:
    _record(call)
    call.write(commands.DeletePermission(call.name, call.vhost))
    return EmptyReply()


ROUTES = [
    ApiRoute("permissions", access.administrator, {"GET": list_permissions}),
    ApiRoute("permissions/{vhost}/{name}", access.administrator, {"GET": show, "PUT": put, "DELETE": delete}),
]
