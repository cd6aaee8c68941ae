"""Small answers: who am I, how to log in, which extensions and features there are; rebalancing."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from mirrormq.control import features
from mirrormq.control.protocol import Request
from mirrormq.management import access
from mirrormq.management.answers import UNSUPPORTED_MEDIA_TYPE, Silent, bad_request
from mirrormq.management.call import Call, Done
from mirrormq.management.routing import JSON, Route

FORM = "application/x-www-form-urlencoded"


def whoami(call: Call) -> dict[str, Any]:
    return {"name": call.user.name, "tags": call.user.tags}


def how_to_log_in(call: Call) -> dict[str, Any]:
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


async def log_in(call: Call) -> str:
    """Says whether a form's `username` and `password` are good for a login. No cookie is given: every request
    brings its login with it."""
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
        raise Silent(UNSUPPORTED_MEDIA_TYPE)
    return "ok"


def extensions(call: Call) -> list[dict[str, Any]]:
    return [{"javascript": "dispatcher.js"}]


def feature_flags(call: Call) -> list[dict[str, Any]]:
    return features.feature_flags()


def enable_feature_flag(call: Call) -> Done:
    """All are enabled."""
    if all(flag["name"] != call.name for flag in features.feature_flags()):
        raise bad_request("unsupported")
    return Done()


async def rebalance(call: Call) -> Done:
    """Spread the masters of mirrored queues evenly."""
    await call.node.carry_out(Request("rebalance", ["all"]))
    return Done()


ROUTES = [
    Route("whoami", access.management, {"GET": whoami}),
    Route("auth", access.nobody_is_asked, {"GET": how_to_log_in}, is_open=True),
    Route("login", access.nobody_is_asked, {"POST": log_in}, is_open=True),
    Route("extensions", access.management, {"GET": extensions}),
    Route("feature-flags", access.administrator, {"GET": feature_flags}),
    Route("feature-flags/{name}/enable", access.administrator, {"PUT": enable_feature_flag}, media=(JSON,)),
    Route("rebalance/queues", access.administrator, {"POST": rebalance}),
]
