"""Scrape of a metrics endpoint, built in chunks so that deliveries continue meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

from mirrormq.management.managed_node import ManagedNode
from mirrormq.management.metrics.bridge_metrics import of_bridges
from mirrormq.management.metrics.detailed_metrics import detailed
from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.management.metrics.lease_metrics import of_jobs, of_leases
from mirrormq.management.metrics.node_metrics import of_node
from mirrormq.management.metrics.object_metrics import ObjectMetrics
from mirrormq.management.metrics.ring_metrics import of_rings

AMQP = labels(protocol="amqp091")
CLASSIC = labels(protocol="amqp091", queue_type="rabbit_classic_queue")

PER_OBJECT = "/metrics/per-object"
DETAILED = "/metrics/detailed"
PATHS = ("/metrics", PER_OBJECT, DETAILED)

_CHANNEL = "rabbitmq_channel_"
GLOBAL = {
    "messages_received_total": (AMQP, ("messages_published_total",)),
    "messages_received_confirm_total": (AMQP, ("messages_confirmed_total", "messages_unconfirmed")),
    "messages_confirmed_total": (AMQP, ("messages_confirmed_total",)),
    "messages_unroutable_dropped_total": (AMQP, ("messages_unroutable_dropped_total",)),
    "messages_unroutable_returned_total": (AMQP, ("messages_unroutable_returned_total",)),
    "messages_delivered_consume_manual_ack_total": (CLASSIC, ("messages_delivered_ack_total",)),
    "messages_delivered_consume_auto_ack_total": (CLASSIC, ("messages_delivered_total",)),
    "messages_delivered_get_manual_ack_total": (CLASSIC, ("get_ack_total",)),
    "messages_delivered_get_auto_ack_total": (CLASSIC, ("get_total",)),
    "messages_delivered_total": (
        CLASSIC, ("messages_delivered_ack_total", "messages_delivered_total", "get_ack_total", "get_total"),
    ),
    "messages_get_empty_total": (CLASSIC, ("get_empty_total",)),
    "messages_redelivered_total": (CLASSIC, ("messages_redelivered_total",)),
    "messages_acknowledged_total": (CLASSIC, ("messages_acked_total",)),
}  # fmt: skip
"""RabbitMQ's counters of the whole node, each as a sum of channel counters."""


def gather(node: ManagedNode, path: str, query: str) -> AsyncIterator[bytes]:
    """Yield the text of one of the endpoints in pieces."""
    if path == DETAILED:
        return detailed(node, parse_qsl(query))
    return _everything(node, path == PER_OBJECT)


async def _everything(node: ManagedNode, per_object: bool) -> AsyncIterator[bytes]:
    exposition = Exposition()
    of_node(node, exposition)
    objects = ObjectMetrics(node, exposition, per_object)
    sums = await objects.collect()
    _counted(exposition, objects)
    _global(exposition, objects, sums)
    await of_rings(node, exposition, per_object)
    of_bridges(node, exposition, per_object)
    of_leases(node, exposition, per_object)
    of_jobs(node, exposition)
    for piece in exposition.pieces():
        yield piece
        await asyncio.sleep(0)


def _counted(exposition: Exposition, objects: ObjectMetrics) -> None:
    exposition.add("rabbitmq_connections", len(objects.connections))
    exposition.add("rabbitmq_channels", len(objects.channels))
    exposition.add("rabbitmq_consumers", sum([len(channel.consumers) for channel in objects.channels]))
    exposition.add("rabbitmq_queues", len(objects.queues))


def _global(exposition: Exposition, objects: ObjectMetrics, sums: Counter[str]) -> None:
    for name, (labelled, parts) in GLOBAL.items():
        exposition.add(f"rabbitmq_global_{name}", sum([sums[_CHANNEL + part] for part in parts]), labelled)
    exposition.add(
        "rabbitmq_global_messages_routed_total", sums["rabbitmq_queue_messages_published_total"], AMQP
    )
    publishers = sum([channel.counters.published > 0 for channel in objects.channels])
    exposition.add("rabbitmq_global_publishers", publishers, AMQP)
    consumers = sum([len(channel.consumers) for channel in objects.channels])
    exposition.add("rabbitmq_global_consumers", consumers, AMQP)
