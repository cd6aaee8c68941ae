"""Resource: session facts (user, login, extensions, feature flags) and rebalancing."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from mirrormq.control import feature_flag_list
from mirrormq.control.control_protocol import Request
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply
from mirrormq.management.http_errors import UNSUPPORTED_MEDIA_TYPE, SilentRefusal, bad_request
from mirrormq.management.route_table import JSON, ApiRoute

FORM = "application/x-www-form-urlencoded"


def whoami(call: ApiRequest) -> dict[str, Any]:
    return {"name": call.user.name, "tags": call.user.tags}


def how_to_log_in(call: ApiRequest) -> dict[str, Any]:
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


async def log_in(call: ApiRequest) -> str:
    """Check a form's `username` and `password`. The reply sets no cookie: every request carries its login."""
    form = dict(parse_qsl(call.content.decode("utf-8", "surrogateescape"), keep_blank_values=True))
    if not {"username", "password"} <= form.keys():
        raise access.login_failed()
    password = form["password"].encode("utf-8", "surrogateescape")
    assert call.gone is not None
    user = await call.node.authenticate(form["username"], password, call.host, call.gone)
    if user is None:
        raise access.login_failed()
    call.user = user
    access.management(call)
    if call.headers.get("content-type", FORM).partition(";")[0].strip().lower() != FORM:
        raise SilentRefusal(UNSUPPORTED_MEDIA_TYPE)
    return "ok"


def extensions(call: ApiRequest) -> list[dict[str, Any]]:
    return [{"javascript": "dispatcher.js"}]


def feature_flags(call: ApiRequest) -> list[dict[str, Any]]:
    return feature_flag_list.feature_flags()


def enable_feature_flag(call: ApiRequest) -> EmptyReply:
    """Accept any known flag: all are enabled already."""
    if all(flag["name"] != call.name for flag in feature_flag_list.feature_flags()):
        raise bad_request("unsupported")
    return EmptyReply()


async def rebalance(call: ApiRequest) -> EmptyReply:
    """Distribute the masters of mirrored queues evenly."""
    await call.node.carry_out(Request("rebalance", ["all"]))
    return EmptyReply()


ROUTES = [
    ApiRoute("whoami", access.management, {"GET": whoami}),
    ApiRoute("auth", access.no_login_required, {"GET": how_to_log_in}, is_open=True),
    ApiRoute("login", access.no_login_required, {"POST": log_in}, is_open=True),
    ApiRoute("extensions", access.management, {"GET": extensions}),
    ApiRoute("feature-flags", access.administrator, {"GET": feature_flags}),
    ApiRoute(
        "feature-flags/{name}/enable", access.administrator, {"PUT": enable_feature_flag}, media=(JSON,)
    ),
    ApiRoute("rebalance/queues", access.administrator, {"POST": rebalance}),
]
