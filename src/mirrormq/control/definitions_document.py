"""Export of definitions files, RabbitMQ's JSON document of all declared objects."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.control.commands.parameters import parameter_rows
from mirrormq.control.definitions_json import binding_row, exchange_row, policy_row, queue_row, user_row
from mirrormq.metadata import records as r
from mirrormq.metadata.cluster_name import shown_global_parameters
from mirrormq.metadata.state import MetadataState


def export_definitions(state: MetadataState, version: str) -> dict[str, Any]:
    """Return all durable declared objects."""
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "users": [user_row(user) for user in state.users.values()],
        "vhosts": [_vhost(vhost) for vhost in state.vhosts.values()],
        "permissions": [msgspec.structs.asdict(record) for record in state.permissions.values()],
        "topic_permissions": [msgspec.structs.asdict(record) for record in state.topic_permissions.values()],
        "parameters": parameter_rows(state),
        "global_parameters": [
            msgspec.structs.asdict(record) for record in shown_global_parameters(state).values()
        ],
        "policies": [policy_row(policy) for policy in state.policies.values()],
        "queues": [
            {**queue_row(queue), "type": "classic"}
            for queue in state.queues.values()
            if queue.survives_restart
        ],
        "exchanges": [exchange_row(record) for record in state.exchanges.values() if _is_exported(record)],
        "bindings": [binding_row(record) for record in state.bindings.values() if _is_lasting(state, record)],
    }


def _vhost(vhost: r.Vhost) -> dict[str, Any]:
    limits = [[name, value] for name, value in vhost.limits.items()]
    metadata = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name, "limits": limits, "metadata": metadata}


def _is_exported(exchange: r.Exchange) -> bool:
    return bool(exchange.name) and not exchange.name.startswith("amq.") and exchange.durable


def _is_lasting(state: MetadataState, binding: r.Binding) -> bool:
    """Report whether source and destination of a binding both survive a restart."""
    source = state.exchanges.get((binding.vhost, binding.source))
    if binding.destination_kind == "exchange":
        target = state.exchanges.get((binding.vhost, binding.destination))
        return bool(source and source.durable and target and target.durable)
    queue = state.queues.get((binding.vhost, binding.destination))
    return bool(source and source.durable and queue and queue.survives_restart)
