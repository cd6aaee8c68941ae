"""`/metrics`: what a Prometheus server scrapes, under the names of RabbitMQ's own exporter.

Only what this node measures is there; a number that nobody counts is left out, not shown as nought. Totals
over queues are those of the last sample, so a scrape costs the same with ten thousand queues as with one.
Like RabbitMQ's exporter it asks for no password: it tells numbers, and no names but the node's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mirrormq.management.seam import ManagedNode
from mirrormq.management.statistics import Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

AMQP = {"protocol": "amqp091"}
CLASSIC = {"protocol": "amqp091", "queue_type": "rabbit_classic_queue"}


class Metric(NamedTuple):
    """One series."""

    name: str
    kind: str
    meaning: str
    value: float
    labels: dict[str, str] = {}


def render(node: ManagedNode, statistics: Statistics) -> bytes:
    """The text exposition format."""
    lines: list[str] = []
    for metric in _metrics(node, statistics):
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in metric.labels.items())
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines.append(f"# HELP {metric.name} {metric.meaning}")
        lines.append(
            f"{metric.name}{{{labels}}} {metric.value}" if labels else f"{metric.name} {metric.value}"
        )
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(node: ManagedNode, statistics: Statistics) -> Iterator[Metric]:
    yield from _node(node)
    yield from _objects(node, statistics)
    yield from _messages(statistics.vhosts(list(node.metadata.state.vhosts)))


def _node(node: ManagedNode) -> Iterator[Metric]:
    settings, status, raised = node.settings, node.status(), node.broker.alarms.raised
    identity = {"rabbitmq_node": settings.name, "rabbitmq_cluster": settings.cluster_name or settings.name}
    versions = {"rabbitmq_version": settings.product_version, "mirrormq_version": status["mirrormq_version"]}
    yield Metric("rabbitmq_identity_info", "untyped", "Which node this is", 1, identity)
    yield Metric("rabbitmq_build_info", "untyped", "Versions, RabbitMQ's and its own", 1, versions)
    for name, meaning, value in (
        ("alarms_memory_used_watermark", "1 while publishers are blocked for memory", "memory" in raised),
        (
            "alarms_free_disk_space_watermark",
            "1 while they are blocked for disk space",
            "disk" in raised,
        ),
        ("process_resident_memory_bytes", "Memory of this process", status["memory"]["total"]),
        (
            "resident_memory_limit_bytes",
            "Memory above which they are blocked",
            status["vm_memory_limit"],
        ),
        ("disk_space_available_bytes", "Free space where the data is", status["disk_free"]),
        ("disk_space_available_limit_bytes", "Free space below which they are", status["disk_free_limit"]),
        (
            "erlang_uptime_seconds",
            "Time since the node started",
            status["uptime"],
        ),
    ):
        yield Metric(f"rabbitmq_{name}", "gauge", meaning, int(value))


def _objects(node: ManagedNode, statistics: Statistics) -> Iterator[Metric]:
    connections = node.broker.connections
    channels = [channel for connection in connections for channel in connection.channels.values()]
    yield Metric("rabbitmq_connections", "gauge", "Open connections", len(connections))
    yield Metric("rabbitmq_channels", "gauge", "Open channels", len(channels))
    consumers = sum(len(channel.consumers) for channel in channels)
    yield Metric("rabbitmq_consumers", "gauge", "Consumers", consumers)
    yield Metric("rabbitmq_queues", "gauge", "Queues", len(node.metadata.state.queues))
    churn = node.broker.events.churn
    created, deleted = churn.queue_created, churn.queue_deleted
    yield Metric("rabbitmq_queues_created_total", "counter", "Queues made since the start", created)
    yield Metric("rabbitmq_queues_deleted_total", "counter", "Queues deleted since the start", deleted)


def _messages(totals: dict[str, Any]) -> Iterator[Metric]:
    counted = totals.get("message_stats", {})
    for name, meaning, key in (
        ("rabbitmq_queue_messages", "Messages in queues", "messages"),
        ("rabbitmq_queue_messages_ready", "Those that wait for a consumer", "messages_ready"),
        ("rabbitmq_queue_messages_unacked", "Those that a consumer has", "messages_unacknowledged"),
    ):
        yield Metric(name, "gauge", meaning, totals.get(key, 0))
    for name, meaning, key, labels in (
        ("rabbitmq_queue_messages_published_total", "Messages put into queues", "publish", {}),
        ("rabbitmq_global_messages_routed_total", "The same, by protocol", "publish", AMQP),
        ("rabbitmq_global_messages_delivered_total", "Messages handed out", "deliver_get", CLASSIC),
        ("rabbitmq_global_messages_redelivered_total", "Messages given back", "redeliver", CLASSIC),
        ("rabbitmq_global_messages_acknowledged_total", "Messages acknowledged", "ack", CLASSIC),
    ):
        yield Metric(name, "counter", meaning, counted.get(key, 0), labels)
