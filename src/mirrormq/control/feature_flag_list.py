"""Feature flags of RabbitMQ that this broker implements, with RabbitMQ's descriptions, which tools show."""

from __future__ import annotations

from typing import Any

DESCRIPTIONS = {
    "classic_mirrored_queue_version": "Support setting version for classic mirrored queues",
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "maintenance_mode_status": "Maintenance mode status",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}
BY_A_PLUGIN = ("drop_unroutable_metric", "empty_basic_get_metric")
"""Flags that RabbitMQ's management plugin provides."""


def feature_flags() -> list[dict[str, Any]]:
    """Return all flags in the form of RabbitMQ's listing."""
    fixed = {"doc_url": "", "state": "enabled", "stability": "stable"}
    return [
        {
            "name": name,
            "desc": text,
            "provided_by": "rabbitmq_management_agent" if name in BY_A_PLUGIN else "rabbit",
            **fixed,
        }
        for name, text in DESCRIPTIONS.items()
    ]
