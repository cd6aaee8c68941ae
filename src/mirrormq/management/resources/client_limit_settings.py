"""Resource: limits of vhosts and of users."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.auth.limit_checks import USER_LIMITS, VHOST_LIMITS
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, missing, not_found
from mirrormq.management.route_table import JSON, ApiRoute
from mirrormq.metadata import commands, records
from mirrormq.wire.erlang_terms import term


def _vhost_row(vhost: records.Vhost) -> dict[str, Any]:
    return {"vhost": vhost.name, "value": vhost.limits}


def list_of_vhosts(call: ApiRequest) -> ListReply:
    if "vhost" in call.parts:
        names = [call.vhost]
    else:
        names = sorted(call.state.vhosts) if call.is_monitor else call.vhosts()
    found = [call.state.vhosts[name] for name in names]
    return ListReply([vhost for vhost in found if vhost.limits], _vhost_row)


def _value(call: ApiRequest) -> Any:
    return call.body("value")["value"]


def set_of_vhost(call: ApiRequest) -> EmptyReply:
    vhost = call.state.vhosts.get(call.vhost)
    if vhost is None:
        raise missing("vhost_not_found")
    value = _value(call)
    if call.name not in VHOST_LIMITS:
        unknown = f"[{{{term(call.name)},{term(value)}}}]"
        raise bad_request(f"Validation failed\n\nUnrecognised terms {unknown} in limits\n")
    if isinstance(value, bool) or not isinstance(value, int):
        text = f"{call.name} should be a number, actually was {term(value)}"
        raise bad_request(f"Validation failed\n\n{text}\n")
    limits = {**vhost.limits, call.name: value}
    call.write(commands.PutVhost(msgspec.structs.replace(vhost, limits=limits)))
    return EmptyReply()


def clear_of_vhost(call: ApiRequest) -> EmptyReply:
    vhost = call.state.vhosts.get(call.vhost)
    if vhost is None:
        raise not_found()
    limits = {name: value for name, value in vhost.limits.items() if name != call.name}
    call.write(commands.PutVhost(msgspec.structs.replace(vhost, limits=limits)))
    return EmptyReply()


def _user_row(user: records.User) -> dict[str, Any]:
    return {"user": user.name, "value": user.limits}


def list_of_users(call: ApiRequest) -> ListReply:
    users = call.state.users
    if "name" in call.parts and call.name not in users:
        raise not_found()
    names = [call.name] if "name" in call.parts else sorted(users)
    return ListReply([users[name] for name in names if users[name].limits], _user_row)


def set_of_user(call: ApiRequest) -> EmptyReply:
    value, kind = _value(call), call.parts["limit"]
    if kind not in USER_LIMITS:
        raise bad_request(f"Unrecognised terms [{{{term(kind)},{term(value)}}}] in user-limits")
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_request(f"{kind} should be a number, actually was {term(value)}")
    user = call.state.users.get(call.name)
    if user is None:
        raise bad_request(["no_such_user", call.name])
    call.write(commands.PutUser(msgspec.structs.replace(user, limits={**user.limits, kind: value})))
    return EmptyReply()


def clear_of_user(call: ApiRequest) -> EmptyReply:
    user = call.state.users.get(call.name)
    if user is None:
        raise not_found()
    limits = {name: value for name, value in user.limits.items() if name != call.parts["limit"]}
    call.write(commands.PutUser(msgspec.structs.replace(user, limits=limits)))
    return EmptyReply()


_OF_VHOST = {"PUT": set_of_vhost, "DELETE": clear_of_vhost}
_OF_USER = {"PUT": set_of_user, "DELETE": clear_of_user}

ROUTES = [
    ApiRoute("vhost-limits", access.management, {"GET": list_of_vhosts}, has_head=False),
    ApiRoute("vhost-limits/{vhost}", access.visible_vhost, {"GET": list_of_vhosts}, has_head=False),
    ApiRoute("vhost-limits/{vhost}/{name}", access.administrator, _OF_VHOST, media=(JSON,)),
    ApiRoute("user-limits", access.management, {"GET": list_of_users}, has_head=False),
    ApiRoute("user-limits/{name}", access.management, {"GET": list_of_users}, has_head=False),
    ApiRoute("user-limits/{name}/{limit}", access.administrator, _OF_USER, media=(JSON,)),
]
