"""Vhosts."""

from __future__ import annotations

from typing import Any

from mirrormq.management import access
from mirrormq.management.answers import Silent, not_found
from mirrormq.management.call import CREATED, Call, Done, Listing, boolean
from mirrormq.management.resources import permissions, topic_permissions
from mirrormq.management.routing import Route
from mirrormq.metadata import commands, records


def row(call: Call, record: records.Vhost) -> dict[str, Any]:
    about = {"description": record.description, "tags": record.tags}
    return {
        "name": record.name,
        **about,
        "default_queue_type": "undefined",
        "metadata": about,
        "tracing": record.tracing,
        "cluster_state": {call.node.settings.name: "running"},
        **call.statistics.vhosts([record.name], call.ranges),
    }


def list_vhosts(call: Call) -> Listing:
    names = sorted(call.state.vhosts) if call.is_monitor else call.vhosts()
    return Listing([call.state.vhosts[name] for name in names], lambda record: row(call, record))


def _record(call: Call) -> records.Vhost:
    record = call.state.vhosts.get(call.vhost)
    if record is None:
        raise not_found()
    return record


def show(call: Call) -> dict[str, Any]:
    return row(call, _record(call))


def tag_list(given: Any) -> list[str]:
    """Tags come as a list or as words with commas between them; RabbitMQ crashes at anything else."""
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise Silent
    return [tag.strip() for tag in given if tag.strip()]


def put(call: Call) -> Done:
    """Whoever makes a vhost may do everything in it. What is not said is emptied, as in RabbitMQ."""
    body = call.body()
    before = call.state.vhosts.get(call.vhost)
    limits = {} if before is None else before.limits
    tracing = boolean(body, "tracing") if "tracing" in body or before is None else before.tracing
    description = str(body.get("description", ""))
    record = records.Vhost(call.vhost, description, tag_list(body.get("tags", "")), tracing, limits)
    call.write(commands.PutVhost(record))
    if before is not None:
        return Done()
    call.write(commands.PutPermission(records.Permission(call.user.name, call.vhost, ".*", ".*", ".*")))
    return Done(CREATED)


def delete(call: Call) -> Done:
    _record(call)
    call.write(commands.DeleteVhost(call.vhost))
    return Done()


def start(call: Call) -> Done:
    """Ours never stop by themselves, so there is nothing to start."""
    _record(call)
    if call.name != call.node.settings.name:
        raise not_found()
    return Done()


def permissions_of(call: Call) -> Listing:
    _record(call)
    return permissions.listing(call, lambda found: found.vhost == call.vhost)


def topic_permissions_of(call: Call) -> Listing:
    _record(call)
    return topic_permissions.listing(call, lambda found: found.vhost == call.vhost)


ROUTES = [
    Route("vhosts", access.management, {"GET": list_vhosts}),
    Route("vhosts/{vhost}", access.administrator, {"GET": show, "PUT": put, "DELETE": delete}),
    Route("vhosts/{vhost}/start/{name}", access.administrator, {"POST": start}),
    Route("vhosts/{vhost}/permissions", access.administrator, {"GET": permissions_of}),
    Route("vhosts/{vhost}/topic-permissions", access.administrator, {"GET": topic_permissions_of}),
]
