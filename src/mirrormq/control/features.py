"""RabbitMQ's feature flags for what is here, with its descriptions, which tools show."""

from __future__ import annotations

from typing import Any

DESCRIPTIONS = {
    "drop_unroutable_metric": "Count unroutable publishes to be dropped in stats",
    "empty_basic_get_metric": "Count AMQP `basic.get` on empty queues in stats",
    "implicit_default_bindings": "Default bindings are now implicit, instead of being stored in the database",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}


def feature_flags() -> list[dict[str, Any]]:
    """All of them, as RabbitMQ lists them."""
    fixed = {"doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "rabbit"}
    return [{"name": name, "desc": text, **fixed} for name, text in DESCRIPTIONS.items()]
