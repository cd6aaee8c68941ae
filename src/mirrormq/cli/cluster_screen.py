"""Text form of `mirrormqctl cluster_status`, in rabbitmqctl's sections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ALARMS = {"memory": "Memory", "disk": "Free disk space"}


def cluster_screen(status: dict[str, Any]) -> Iterable[str]:
    """Yield the lines of the screen."""
    yield from ("Basics", "", f"Cluster name: {status['cluster_name']}", "")
    yield from _section("Disk Nodes", sorted(status["disk_nodes"]))
    if status["ram_nodes"]:
        yield from _section("RAM Nodes", sorted(status["ram_nodes"]))
    yield from _section("Running Nodes", sorted(status["running_nodes"]))
    yield from _section("Versions", [_version(*pair) for pair in sorted(status["versions"].items())])
    yield from _section(
        "Maintenance status",
        [f"Node: {name}, status: {state}" for name, state in sorted(status["maintenance_status"].items())],
    )
    yield from _section("Alarms", [alarm_line(alarm) for alarm in status["alarms"]])
    yield from _section(
        "Network Partitions",
        [
            f"Node {name} cannot communicate with {', '.join(others)}"
            for name, others in status["partitions"].items()
        ],
    )
    if faults := status.get("journal_faults"):
        yield from _section("Journal Faults", [fault_line(fault) for fault in faults])
    listeners = [row for _, rows in sorted(status["listeners"].items()) for row in rows]
    yield from _section("Listeners", [listener_line(row) for row in listeners])
    flags = [f"Flag: {flag['name']}, state: {flag['state']}" for flag in status["feature_flags"]]
    yield from list(_section("Feature flags", flags))[:-1]


def _section(title: str, rows: list[str]) -> Iterable[str]:
    yield from (title, "", *(rows or ["(none)"]), "")


def _version(name: str, versions: dict[str, str]) -> str:
    product = f"{versions['rabbitmq_name']} {versions['rabbitmq_version']}"
    return f"{name}: {product} on MirrorMQ {versions['mirrormq_version']}"


def alarm_line(alarm: dict[str, str]) -> str:
    """Describe an alarm with RabbitMQ's text."""
    return f"{ALARMS.get(alarm['resource'], alarm['resource'])} alarm on node {alarm['node']}"


def fault_line(fault: dict[str, Any]) -> str:
    """Describe a journal fault of a node and the number of its untrusted copies."""
    return f"Node: {fault['node']}, fault: {fault['fault']}, untrusted copies: {fault['untrusted_copies']}"


def listener_line(row: dict[str, Any], *, with_node: bool = True) -> str:
    """Describe a listener: interface, port, protocol and purpose."""
    where = f"interface: {row['interface']}, port: {row['port']}"
    start = f"Node: {row['node']}, {where}" if with_node else f"I{where[1:]}"
    return f"{start}, protocol: {row['protocol']}, purpose: {row['purpose']}"
