"""JSON form of declared objects, shared by definitions files, listings and the HTTP API."""

from __future__ import annotations

from typing import Any

from mirrormq.control.argument_tables import plain_arguments
from mirrormq.metadata import records


def user_row(user: records.User) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": user.limits,
    }


def policy_row(policy: records.Policy | records.OperatorPolicy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def queue_row(queue: records.Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": plain_arguments(queue.arguments),
    }


def exchange_row(exchange: records.Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_arguments(exchange.arguments),
    }


def binding_row(binding: records.Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": plain_arguments(binding.arguments),
    }
