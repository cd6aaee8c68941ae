"""Commands that list exchanges, bindings and queues."""

from __future__ import annotations

from typing import Any

from mirrormq.control.argument_tables import typed_arguments
from mirrormq.control.chunked_rows import collected
from mirrormq.control.control_protocol import Request
from mirrormq.control.node_fanout import HERE, on_all_nodes
from mirrormq.control.node_interface import ControlledNode, NodeShell
from mirrormq.metadata.policy_matching import PolicyMatcher

COLUMNS = "columns"
"""Option that names the requested columns, so that nodes send no others."""


async def list_queues(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return each queue as its master reports it; a queue without a reachable master shows its declaration
    only."""
    live, vhost, chosen = node.live, request.vhost, _chosen(request)
    here = await collected(_cut(row, chosen) for row in live.local_queues(vhost))
    if request.flag("local") or request.flag(HERE):
        return here
    parts = await on_all_nodes(node, request, lambda: here)
    found = {row["name"]: row for part in parts for row in part}
    # A queue whose master did not reply is shown from the metadata.
    names = list(node.metadata.state.queues_of(vhost))
    rows = await collected(found.get(name) or _cut(live.queue(vhost, name), chosen) for name in names)
    online, offline = request.flag("online"), request.flag("offline")
    return [row for row in rows if row and (online == offline or (row["state"] == "down") == offline)]


def _chosen(request: Request) -> frozenset[str] | None:
    """Return the requested columns and those that the listing itself needs; None for all."""
    columns = request.options.get(COLUMNS)
    return None if not columns else frozenset((*columns, "name", "state"))


def _cut(row: dict[str, Any] | None, chosen: frozenset[str] | None) -> dict[str, Any]:
    """Return the requested columns of a row; empty if there is no row."""
    if row is None or chosen is None:
        return row or {}
    return {name: value for name, value in row.items() if name in chosen}


def list_exchanges(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    policies = PolicyMatcher(node.metadata.state)
    return [
        {
            "name": exchange.name,
            "type": exchange.kind,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": typed_arguments(exchange.arguments),
            "policy": policies.effective(request.vhost, exchange.name, "exchanges").policy or "",
        }
        for exchange in node.metadata.state.exchanges_of(request.vhost).values()
    ]


def list_bindings(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    """Return the bindings. The default exchange's bindings are implied by the queues and not stored."""
    state = node.metadata.state
    implied = [_row("", name, "queue", name, b"") for name in state.queues_of(request.vhost)]
    declared = [
        _row(found.source, found.destination, found.destination_kind, found.routing_key, found.arguments)
        for found in state.bindings.values()
        if found.vhost == request.vhost
    ]
    return implied + declared


def _row(source: str, destination: str, kind: str, routing_key: str, arguments: bytes) -> dict[str, Any]:
    return {
        "source_name": source,
        "source_kind": "exchange",
        "destination_name": destination,
        "destination_kind": kind,
        "routing_key": routing_key,
        "arguments": typed_arguments(arguments),
    }


COMMANDS = {"list_queues": list_queues, "list_exchanges": list_exchanges, "list_bindings": list_bindings}
