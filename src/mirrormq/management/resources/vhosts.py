"""Resource: vhosts."""

from __future__ import annotations

from typing import Any

from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply, boolean
from mirrormq.management.http_errors import bad_request, not_found
from mirrormq.management.peer_client import merged
from mirrormq.management.resources import permissions, topic_permissions
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import commands, records
from mirrormq.wire.erlang_terms import term


def counted_here(call: ApiRequest, name: str) -> dict[str, Any]:
    """Return this node's counters of a vhost."""
    return call.statistics.vhosts([name], call.ranges)


async def _counted_on_peers(call: ApiRequest, names: list[str]) -> list[dict[str, Any]]:
    return list((await call.peer_client.ask_all("vhosts", vhosts=names, query=call.asked)).values())


def row(call: ApiRequest, record: records.Vhost, peer_rows: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"description": record.description, "tags": record.tags}
    return {
        "name": record.name,
        **about,
        "default_queue_type": "undefined",
        "metadata": about,
        "tracing": record.tracing,
        "cluster_state": dict.fromkeys([call.me, *call.peer_client.peers], "running"),
        **merged([counted_here(call, record.name), *(part.get(record.name, {}) for part in peer_rows)]),
    }


async def list_vhosts(call: ApiRequest) -> ListReply:
    names = sorted(call.state.vhosts) if call.is_monitor else call.vhosts()
    found = [call.state.vhosts[name] for name in names]
    peer_rows = await _counted_on_peers(call, names)
    return ListReply(found, lambda record: row(call, record, peer_rows))


def _record(call: ApiRequest) -> records.Vhost:
    record = call.state.vhosts.get(call.vhost)
    if record is None:
        raise not_found()
    return record


async def show(call: ApiRequest) -> dict[str, Any]:
    record = _record(call)
    return row(call, record, await _counted_on_peers(call, [record.name]))


def tag_list(given: Any) -> list[str]:
    """Parse tags: a list or comma-separated text."""
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not all(isinstance(tag, str) for tag in given):
        raise bad_request("tags should be a list of words")
    return [tag.strip() for tag in given if tag.strip()]


def put(call: ApiRequest) -> EmptyReply:
    """Create or update a vhost; its creator gets all permissions. As in RabbitMQ, omitted fields are
    cleared."""
    body = call.body()
    before = call.state.vhosts.get(call.vhost)
    limits = {} if before is None else before.limits
    tracing = boolean(body, "tracing") if "tracing" in body or before is None else before.tracing
    description = str(body.get("description", ""))
    record = records.Vhost(call.vhost, description, tag_list(body.get("tags", "")), tracing, limits)
    call.write(commands.PutVhost(record))
    if before is not None:
        return EmptyReply()
    call.write(commands.PutPermission(records.Permission(call.user.name, call.vhost, ".*", ".*", ".*")))
    return EmptyReply(CREATED)


def delete(call: ApiRequest) -> EmptyReply:
    _record(call)
    call.write(commands.DeleteVhost(call.vhost))
    return EmptyReply()


def start(call: ApiRequest) -> EmptyReply:
    """Accept the request: a vhost of MirrorMQ never stops, so there is nothing to start."""
    reason = "nodedown" if call.name not in (call.me, *call.peer_client.peers) else ""
    if not reason and call.vhost not in call.state.vhosts:
        reason = f"{{no_such_vhost,{term(call.vhost)}}}"
    if reason:
        raise bad_request(f"Request to node {call.name} failed with {reason}")
    return EmptyReply()


def permissions_of(call: ApiRequest) -> ListReply:
    _record(call)
    return permissions.listing(call, lambda found: found.vhost == call.vhost)


def topic_permissions_of(call: ApiRequest) -> ListReply:
    _record(call)
    return topic_permissions.listing(call, lambda found: found.vhost == call.vhost)


ROUTES = [
    ApiRoute("vhosts", access.management, {"GET": list_vhosts}),
    ApiRoute("vhosts/{vhost}", access.administrator, {"GET": show, "PUT": put, "DELETE": delete}),
    ApiRoute("vhosts/{vhost}/start/{name}", access.administrator, {"POST": start}),
    ApiRoute("vhosts/{vhost}/permissions", access.administrator, {"GET": permissions_of}),
    ApiRoute("vhosts/{vhost}/topic-permissions", access.administrator, {"GET": topic_permissions_of}),
]
