"""Resource: nodes with their properties, resource usage and listeners."""

from __future__ import annotations

import os
from typing import Any

from mirrormq.config.settings import Address
from mirrormq.management import access, os_metrics
from mirrormq.management.api_request import ApiRequest, ListReply
from mirrormq.management.http_errors import not_found
from mirrormq.management.route_table import ApiRoute

EXCHANGE_TYPES = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-modulus-hash": "Modulus Hashing Exchange",
    "x-random": "Randomly picks a binding (queue) to route via (to).",
    "x-recent-history": "Recent History Exchange.",
}
"""RabbitMQ's names and descriptions, which tools match."""

STDERR = "<stderr>"
"""Log destination of a node without log files, in RabbitMQ's notation."""


def exchange_types() -> list[dict[str, Any]]:
    return [{"name": name, "description": text, "enabled": True} for name, text in EXCHANGE_TYPES.items()]


def listeners(call: ApiRequest) -> list[dict[str, Any]]:
    settings = call.node.settings
    opened = [("amqp", address) for address in settings.amqp_listeners]
    opened += [("amqp/ssl", address) for address in settings.tls_listeners]
    opened += [("http", address) for address in _given(settings.management_listener)]
    opened += [("https", address) for address in _given(settings.management_tls_listener)]
    opened += [("http/prometheus", address) for address in _given(settings.metrics_listener)]
    return [
        {
            "node": settings.name,
            "protocol": protocol,
            "ip_address": address.host or "::",
            "port": address.port,
            "socket_opts": {"backlog": settings.tcp_backlog, "nodelay": True},
        }
        for protocol, address in opened
    ]


def contexts(call: ApiRequest) -> list[dict[str, Any]]:
    settings = call.node.settings
    description = "RabbitMQ Management"
    opened: list[tuple[Address, dict[str, str]]] = []
    opened += [(address, {}) for address in _given(settings.management_listener)]
    opened += [(address, {"ssl": "true"}) for address in _given(settings.management_tls_listener)]
    return [
        {"description": description, "path": "/", "ip": address.host, "port": str(address.port), **more}
        for address, more in opened
    ]


def _given(address: Address | None) -> list[Address]:
    return [] if address is None else [address]


def own_row(call: ApiRequest) -> dict[str, Any]:
    """Return the row of this node."""
    settings, status, broker = call.node.settings, call.node.status(), call.node.broker
    return {
        "name": settings.name,
        "type": "disc",
        "running": True,
        "partitions": call.node.cluster.partitions.get(settings.name, []),
        "cluster_links": _links(call),
        **_journal_fault(call, settings.name),
        "os_pid": str(status["pid"]),
        "uptime": status["uptime"] * 1000,
        "processors": os.cpu_count(),
        "mem_limit": status["vm_memory_limit"],
        "mem_alarm": "memory" in broker.alarms.raised,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": status["disk_free_limit"],
        "disk_free_alarm": "disk" in broker.alarms.raised,
        "rates_mode": settings.rates_mode,
        "net_ticktime": int(call.node.net_ticktime_s),
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": "", "enabled": True} for name in settings.auth_mechanisms
        ],
        "applications": [
            {"name": "rabbit", "description": settings.product, "version": settings.product_version}
        ],
        "contexts": contexts(call),
        "db_dir": status["data_directory"],
        "config_files": [str(settings.settings_file.absolute())] if settings.settings_file else [],
        "log_files": call.node.log_files or [STDERR],
        "enabled_plugins": [],
        **os_metrics.shown(call.node, call.statistics, call.ranges),
        **call.statistics.churn(call.ranges.node_stats),
    }


def _journal_fault(call: ApiRequest, name: str) -> dict[str, str]:
    """Return the fault that the node found in its journal at startup. RabbitMQ has no such field, so it is
    present only with a fault."""
    record = call.state.nodes.get(name)
    if record is None or not record.running or not record.journal_fault:
        return {}
    return {"journal_fault": record.journal_fault}


def _links(call: ApiRequest) -> list[dict[str, Any]]:
    """Return the connected peers and their addresses."""
    found = []
    for name in call.peer_client.peers:
        record = call.state.nodes.get(name)
        host, _, port = (record.address if record is not None else "").rpartition(":")
        found.append({"name": name, "peer_addr": host, "peer_port": int(port) if port.isdigit() else 0})
    return found


def silent_row(call: ApiRequest, name: str) -> dict[str, Any]:
    """Return the row of a member that has not replied, from the metadata."""
    record = call.state.nodes.get(name)
    runs = record is not None and record.running
    return {
        "name": name,
        "type": "disc",
        "running": runs and name in call.peer_client.peers,
        "partitions": [],
        "cluster_links": [],
        **_journal_fault(call, name),
    }


async def list_nodes(call: ApiRequest) -> ListReply:
    """Return every member, running or not."""
    replies = await call.peer_client.ask_all("node", query=call.asked)
    names = sorted({call.me, *call.node.cluster.members})
    return ListReply(names, lambda name: _row(call, name, replies))


def _row(call: ApiRequest, name: str, replies: dict[str, Any]) -> dict[str, Any]:
    if name == call.me:
        return own_row(call)
    found: dict[str, Any] = replies.get(name) or silent_row(call, name)
    return found


async def show(call: ApiRequest) -> dict[str, Any]:
    if call.name not in (call.me, *call.node.cluster.members):
        raise not_found()
    return _row(call, call.name, await _reply_of_peer(call))


async def _reply_of_peer(call: ApiRequest) -> dict[str, Any]:
    if call.name not in call.peer_client.peers:
        return {}
    return {call.name: await call.peer_client.ask(call.name, "node", query=call.asked)}


def own_memory(call: ApiRequest) -> dict[str, int]:
    """Return this node's memory use per category."""
    return call.node.live.memory_parts(int(call.node.status()["memory"]["total"]))


async def _memory(call: ApiRequest) -> dict[str, int]:
    if call.name == call.me:
        return own_memory(call)
    if call.name not in call.peer_client.peers:
        raise not_found()
    return await call.peer_client.ask(call.name, "memory") or {}


async def memory(call: ApiRequest) -> dict[str, Any]:
    """Return memory per category. RabbitMQ's three totals differ by reserved memory; here they are equal."""
    parts = await _memory(call)
    total = sum(parts.values())
    totals = {"rss": total, "allocated": total, "erlang": total}
    return {"memory": {**parts, "strategy": "rss", "total": totals}}


async def relative_memory(call: ApiRequest) -> dict[str, Any]:
    """Return percentages; a category with any memory has at least one."""
    parts = await _memory(call)
    total = max(sum(parts.values()), 1)
    shares = {kind: max(round(100 * size / total), 1) if size else 0 for kind, size in parts.items()}
    return {"memory": {"total": 100, **shares}}


ROUTES = [
    ApiRoute("nodes", access.monitor, {"GET": list_nodes}),
    ApiRoute("nodes/{name}", access.monitor, {"GET": show}),
    ApiRoute("nodes/{name}/memory", access.monitor, {"GET": memory}),
    ApiRoute("nodes/{name}/memory/relative", access.monitor, {"GET": relative_memory}),
]
