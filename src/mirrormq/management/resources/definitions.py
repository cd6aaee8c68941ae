"""Definitions: everything that is declared, out and in, of the node or of one vhost.

The HTTP API's export differs from `export_definitions` of the control program in the same way as
RabbitMQ's: what does not survive a restart is in it too, except exclusive queues.
"""

from __future__ import annotations

from typing import Any

from mirrormq.auth.limits import MAX_QUEUES, UNLIMITED
from mirrormq.control.definitions import export_definitions, import_definitions
from mirrormq.control.tables import plain_arguments
from mirrormq.management import access
from mirrormq.management.answers import bad_request, encode, missing
from mirrormq.management.call import Call, Done, Raw
from mirrormq.management.listing import only_columns
from mirrormq.management.routing import Route
from mirrormq.metadata.state import State

OF_A_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")
NAMELESS = ("queues", "exchanges", "bindings")
"""In the definitions of one vhost these do not say which."""


def _document(call: Call) -> dict[str, Any]:
    settings = call.node.settings
    found = export_definitions(call.state, settings.product_version)
    return {
        "rabbit_version": settings.product_version,
        "rabbitmq_version": settings.product_version,
        "product_name": settings.product,
        "product_version": settings.product_version,
        **{name: found[name] for name in ("users",)},
        "vhosts": [{"name": vhost["name"]} for vhost in found["vhosts"]],
        **{
            name: found[name]
            for name in ("permissions", "topic_permissions", "parameters", "global_parameters", "policies")
        },
        **_declared(call.state),
    }


def _declared(state: State) -> dict[str, Any]:
    exclusive = {key for key, queue in state.queues.items() if queue.exclusive}
    return {
        "queues": [
            {
                "name": queue.name,
                "vhost": queue.vhost,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "arguments": plain_arguments(queue.arguments),
            }
            for queue in state.queues.values()
            if not queue.exclusive
        ],
        "exchanges": [
            {
                "name": exchange.name,
                "vhost": exchange.vhost,
                "type": exchange.kind,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": plain_arguments(exchange.arguments),
            }
            for exchange in state.exchanges.values()
            if exchange.name and not exchange.name.startswith("amq.")
        ],
        "bindings": [
            {
                "source": binding.source,
                "vhost": binding.vhost,
                "destination": binding.destination,
                "destination_type": binding.destination_kind,
                "routing_key": binding.routing_key,
                "arguments": plain_arguments(binding.arguments),
            }
            for binding in state.bindings.values()
            if binding.destination_kind != "queue" or (binding.vhost, binding.destination) not in exclusive
        ],
    }


def _answer(call: Call, document: dict[str, Any]) -> Raw:
    headers = {}
    if wanted := call.query.get("download"):
        safe = "".join(each for each in wanted if each.isalnum() or each in "-_.@")
        headers["content-disposition"] = f"attachment; filename={safe}"
    return Raw(encode(only_columns(document, call.query)), headers=headers)


def export_all(call: Call) -> Raw:
    return _answer(call, _document(call))


def export_vhost(call: Call) -> Raw:
    if call.vhost not in call.state.vhosts:
        raise bad_request("vhost_not_found")
    document = _document(call)
    found: dict[str, Any] = {"rabbit_version": document["rabbit_version"]}
    for name in OF_A_VHOST:
        rows = [row for row in document[name] if row["vhost"] == call.vhost]
        if name in NAMELESS:
            rows = [{key: value for key, value in row.items() if key != "vhost"} for row in rows]
        found[name] = rows
    return _answer(call, found)


def _import(call: Call, document: dict[str, Any]) -> Done:
    _check_vhosts(call, document)
    _check_limits(call, document)
    with call.node.metadata.acting_as(call.user.name):
        import_definitions(call.node.metadata, document, call.node.settings.name)
    return Done()


def _entries(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = document.get(name)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _check_vhosts(call: Call, document: dict[str, Any]) -> None:
    """What is declared must lie in a vhost that is there or comes with it."""
    known = set(call.state.vhosts) | {entry.get("name") for entry in _entries(document, "vhosts")}
    for name in NAMELESS:
        for entry in _entries(document, name):
            if "vhost" in entry and entry["vhost"] not in known:
                raise bad_request(["no_such_vhost", entry["vhost"]])


def _check_limits(call: Call, document: dict[str, Any]) -> None:
    """All or nothing: not a queue too many."""
    for vhost in call.state.vhosts.values():
        limit = vhost.limits.get(MAX_QUEUES, UNLIMITED)
        have = call.state.queues_of(vhost.name)
        wanted = {
            entry.get("name") for entry in _entries(document, "queues") if entry.get("vhost") == vhost.name
        }
        new = len(wanted - have.keys())
        if 0 <= limit < len(have) + new:
            raise bad_request(
                f'Adding {new} queue(s) to virtual host "{vhost.name}" would exceed the limit of '
                f"{limit} queue(s).\n\nThis virtual host currently has {len(have)} queue(s) defined.\n\n"
                "Import aborted!"
            )


def import_all(call: Call) -> Done:
    document = call.body(unreadable="failed_to_parse_json")
    if vhost := call.query.get("vhost"):
        return _import_into(call, document, vhost)
    return _import(call, document)


def import_vhost(call: Call) -> Done:
    return _import_into(call, call.body(unreadable="failed_to_parse_json"), call.vhost)


def _import_into(call: Call, document: dict[str, Any], vhost: str) -> Done:
    if vhost not in call.state.vhosts:
        raise missing("vhost_not_found")
    chosen: dict[str, Any] = {}
    for name in OF_A_VHOST:
        rows = document.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise bad_request(f"{name} should be a list of objects")
        chosen[name] = [{**row, "vhost": vhost} for row in rows]
    return _import(call, chosen)


ROUTES = [
    Route("definitions", access.administrator, {"GET": export_all, "POST": import_all}),
    Route("definitions/{vhost}", access.administrator, {"GET": export_vhost, "POST": import_vhost}),
]
