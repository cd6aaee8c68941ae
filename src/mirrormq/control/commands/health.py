"""Commands behind health checks: certificates, unresponsive queues, feature flags, vhosts."""

from __future__ import annotations

from typing import Any

from mirrormq.control.certificates import expiring
from mirrormq.control.control_protocol import EXIT_SOFTWARE, EXIT_USAGE, ControlError, Request
from mirrormq.control.feature_flag_list import DESCRIPTIONS, feature_flags
from mirrormq.control.node_interface import ControlledNode, NodeShell

QUEUE_TIMEOUT_MS = 15_000
"""Time that rabbitmqctl waits for a queue's reply."""


def expiring_certificates(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    """Return the TLS listeners whose certificates expire within the given time."""
    return expiring(node.settings, int(request.options["within"]), str(request.options["unit"]))


async def list_unresponsive_queues(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return the queues whose master is recorded as running but does not reply in time."""
    if request.flag("local") or request.vhost not in node.metadata.state.vhosts:
        return []
    timeout_s = int(request.options.get("queue-timeout", QUEUE_TIMEOUT_MS)) / 1000
    silent = {name for name in node.cluster.running if not await _answers(node, name, timeout_s)}
    state, rows = node.metadata.state, node.live.queues(request.vhost) if silent else []
    return [
        {**row, "recoverable_slaves": row["slave_pids"]}
        for row in rows
        if state.queues[request.vhost, row["name"]].ring.master in silent
    ]


async def _answers(node: NodeShell, name: str, timeout_s: float) -> bool:
    if name == node.settings.name:
        return True
    try:
        await node.cluster.ask(name, Request("running_nodes"), timeout_s)
    except ControlError:
        return False
    return True


def list_feature_flags(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    return feature_flags()


def enable_feature_flag(node: ControlledNode, request: Request) -> None:
    """Accept any known flag: all are enabled already."""
    name = request.arguments[0]
    if name != "all" and name not in DESCRIPTIONS:
        raise ControlError("This feature flag is not supported by node " + node.settings.name, EXIT_USAGE)


def restart_vhost(node: ControlledNode, request: Request) -> str:
    """Report that the vhost runs: a vhost is up whenever its node is."""
    if request.vhost not in node.metadata.state.vhosts:
        reason = f'Reason: {{:no_such_vhost, "{request.vhost}"}}'
        text = f"Failed to start vhost '{request.vhost}' on node '{node.settings.name}'{reason}"
        raise ControlError(text, EXIT_SOFTWARE)
    return f"Vhost '{request.vhost}' is already running on node '{node.settings.name}'"


COMMANDS = {
    "expiring_certificates": expiring_certificates,
    "list_unresponsive_queues": list_unresponsive_queues,
    "list_feature_flags": list_feature_flags,
    "enable_feature_flag": enable_feature_flag,
    "restart_vhost": restart_vhost,
}
