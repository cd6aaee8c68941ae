"""What is declared: exchanges and bindings; and queues with what is going on in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirrormq.control.everywhere import HERE, everywhere
from mirrormq.control.node import Node, Shell
from mirrormq.control.protocol import Request
from mirrormq.control.tables import typed_arguments
from mirrormq.metadata.policies import Policies


async def list_queues(node: Shell, request: Request) -> list[dict[str, Any]]:
    """Each queue as its own node shows it; of those whose node cannot say, what is declared."""
    live, vhost = node.live, request.vhost
    parts = await everywhere(node, _local_only(request), lambda: live.local_queues(vhost))
    if request.flag("local") or request.flag(HERE):
        return list(parts[0])
    found = {row["name"]: row for part in parts for row in part}
    rows = [found.get(row["name"], row) for row in live.queues(vhost)]
    online, offline = request.flag("online"), request.flag("offline")
    if online == offline:
        return rows
    return [row for row in rows if (row["state"] == "down") == offline]


def _local_only(request: Request) -> Request:
    """`--local` asks nobody else."""
    if request.flag("local"):
        return replace(request, options={**request.options, HERE: True})
    return request


def list_exchanges(node: Node, request: Request) -> list[dict[str, Any]]:
    policies = Policies(node.metadata.state)
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


def list_bindings(node: Node, request: Request) -> list[dict[str, Any]]:
    """Every queue is bound to the default exchange by its own name; that is listed and not stored."""
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


VERBS = {"list_queues": list_queues, "list_exchanges": list_exchanges, "list_bindings": list_bindings}
