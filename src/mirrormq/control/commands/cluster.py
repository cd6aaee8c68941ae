"""Commands for the cluster: status, name, join, reset, forget."""

from __future__ import annotations

from typing import Any

from mirrormq.config.settings_display import shown_settings
from mirrormq.control.control_protocol import EXIT_SOFTWARE, ControlError, Request
from mirrormq.control.feature_flag_list import feature_flags
from mirrormq.control.node_fanout import on_all_nodes
from mirrormq.control.node_interface import NodeShell
from mirrormq.metadata.cluster_name import cluster_name, renaming_commands
from mirrormq.replication.ring_status import untrusted_copies


def set_cluster_name(node: NodeShell, request: Request) -> None:
    for command in renaming_commands(node.metadata.state, node.settings.name, request.arguments[0]):
        node.metadata.write(command)


async def cluster_status(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the values of `mirrormqctl cluster_status` under RabbitMQ's names. All nodes are disk nodes."""
    cluster = node.cluster
    facts = await on_all_nodes(node, Request("node_facts", options=request.options), lambda: _facts(node))
    by_name = {fact["name"]: fact for fact in sorted(facts, key=lambda fact: str(fact["name"]))}
    faults = _journal_faults(node)
    return {
        "alarms": [alarm for fact in by_name.values() for alarm in fact["alarms"]],
        "cluster_name": cluster_name(node.metadata.state, node.settings.name),
        "disk_nodes": cluster.members,
        "feature_flags": feature_flags(),
        # RabbitMQ has no such key: it is present only if a journal is damaged.
        **({"journal_faults": faults} if faults else {}),
        "listeners": {name: fact["listeners"] for name, fact in by_name.items()},
        "maintenance_status": {name: fact["maintenance"] for name, fact in by_name.items()},
        "partitions": cluster.partitions,
        "ram_nodes": [],
        "running_nodes": list(by_name),
        "versions": {name: fact["versions"] for name, fact in by_name.items()},
    }


def _journal_faults(node: NodeShell) -> list[dict[str, Any]]:
    """Return the faults that running nodes found in their journals at startup."""
    state = node.metadata.state
    copies = untrusted_copies(state)
    return [
        {"node": name, "fault": record.journal_fault, "untrusted_copies": copies.get(name, 0)}
        for name, record in sorted(state.nodes.items())
        if record.running and record.journal_fault
    ]


def node_facts(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return this node's contribution to the cluster status."""
    return _facts(node)


def _facts(node: NodeShell) -> dict[str, Any]:
    status = node.status()
    settings = node.settings
    record = node.metadata.state.nodes.get(settings.name)
    resting = record is not None and record.maintenance
    return {
        "name": settings.name,
        "alarms": [
            {"node": settings.name, "resource": alarm, "type": "resource_limit"} for alarm in status["alarms"]
        ],
        "listeners": status["listeners"],
        "maintenance": "marked for maintenance" if resting else "not under maintenance",
        "versions": {
            "mirrormq_version": status["mirrormq_version"],
            "rabbitmq_name": settings.product,
            "rabbitmq_version": settings.product_version,
        },
    }


def running_nodes(node: NodeShell, request: Request) -> list[str]:
    """Return the running nodes; the control program polls this command while it waits for nodes."""
    return node.cluster.running


async def join_cluster(node: NodeShell, request: Request) -> str | None:
    """Join a cluster; return a note if the node is already a member."""
    name = request.arguments[0]
    if name == node.settings.name:
        raise ControlError(f"Error: cannot cluster node with itself: {name}", EXIT_SOFTWARE)
    if await node.cluster.join(name, str(request.options.get("address", ""))):
        return None
    return "The node is already a member of this cluster"


async def reset(node: NodeShell, request: Request) -> None:
    await node.cluster.reset(force=False)


async def force_reset(node: NodeShell, request: Request) -> None:
    await node.cluster.reset(force=True)


def force_boot(node: NodeShell, request: Request) -> None:
    node.cluster.force_boot()


async def forget_cluster_node(node: NodeShell, request: Request) -> None:
    await node.cluster.forget(request.arguments[0])


def membership(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the membership facts that a joining node requests."""
    return node.cluster.membership(request.arguments[0])


def environment(node: NodeShell, request: Request) -> dict[str, Any]:
    """Return the settings without secrets, under the name of RabbitMQ's own application."""
    return {"rabbit": shown_settings(node.settings)}


COMMANDS = {
    "set_cluster_name": set_cluster_name,
    "cluster_status": cluster_status,
    "node_facts": node_facts,
    "running_nodes": running_nodes,
    "join_cluster": join_cluster,
    "reset": reset,
    "force_reset": force_reset,
    "force_boot": force_boot,
    "forget_cluster_node": forget_cluster_node,
    "membership": membership,
    "environment": environment,
}
