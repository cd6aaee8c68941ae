"""Small answers: who am I, how to log in, which extensions and features there are; rebalancing."""

from __future__ import annotations

from typing import Any

from mirrormq.management import access
from mirrormq.management.call import Call, Done
from mirrormq.management.routing import Route

FEATURE_FLAGS = {
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}
"""RabbitMQ's flags for what is here, and its descriptions, which tools show."""


def whoami(call: Call) -> dict[str, Any]:
    return {"name": call.user.name, "tags": call.user.tags}


def how_to_log_in(call: Call) -> dict[str, Any]:
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


def extensions(call: Call) -> list[dict[str, Any]]:
    return [{"javascript": "dispatcher.js"}]


def feature_flags(call: Call) -> list[dict[str, Any]]:
    fixed = {"doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "rabbit"}
    return [{"name": name, "desc": text, **fixed} for name, text in FEATURE_FLAGS.items()]


def rebalance(call: Call) -> Done:
    """One node has all the masters there are."""
    return Done()


def anybody(call: Call) -> None:
    """No login needed."""


ROUTES = [
    Route("whoami", access.management, {"GET": whoami}),
    Route("auth", anybody, {"GET": how_to_log_in}, is_open=True),
    Route("extensions", access.management, {"GET": extensions}),
    Route("feature-flags", access.administrator, {"GET": feature_flags}),
    Route("rebalance/queues", access.administrator, {"POST": rebalance}),
]
