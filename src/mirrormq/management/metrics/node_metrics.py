"""Metrics of the node itself: identity, resources, disk, churn, logins."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from mirrormq.broker.alarms import DISK, MEMORY
from mirrormq.management import counter_kinds, os_metrics
from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.metadata.cluster_name import cluster_name

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode

CHURN = {
    "connections_opened_total": "connection_created", "connections_closed_total": "connection_closed",
    "channels_opened_total": "channel_created", "channels_closed_total": "channel_closed",
    "queues_declared_total": "queue_declared", "queues_created_total": "queue_created",
    "queues_deleted_total": "queue_deleted",
}  # fmt: skip
PROTOCOLS = ("amqp091", "http")
TURN_WINDOWS_S = (5, 60)
"""Windows of the longest turn: the short one for benchmarks, the long one for a scrape per minute."""
DEAD_LETTERED = labels(queue_type="rabbit_classic_queue", dead_letter_strategy="at_most_once")


def of_node(node: ManagedNode, exposition: Exposition) -> None:
    """Add all metrics except those of clients, queues and rings."""
    _identity(node, exposition)
    _machine(node, exposition)
    _disk(node, exposition)
    for name, counter in CHURN.items():
        exposition.add(f"rabbitmq_{name}", getattr(node.broker.events.churn, counter))
    for reason in ("expired", "maxlen", "rejected"):
        count = node.broker.events.dead_lettered[reason]
        exposition.add(f"rabbitmq_global_messages_dead_lettered_{reason}_total", count, DEAD_LETTERED)
    logins = node.broker.events.logins
    for protocol in PROTOCOLS:
        good, bad, whose = logins[protocol, True], logins[protocol, False], labels(protocol=protocol)
        exposition.add("rabbitmq_auth_attempts_total", good + bad, whose)
        exposition.add("rabbitmq_auth_attempts_succeeded_total", good, whose)
        exposition.add("rabbitmq_auth_attempts_failed_total", bad, whose)


def _identity(node: ManagedNode, exposition: Exposition) -> None:
    settings, status = node.settings, node.status()
    name = cluster_name(node.broker.metadata.state, settings.name)
    who = labels(
        rabbitmq_node=settings.name, rabbitmq_cluster=name, rabbitmq_cluster_permanent_id=node.cluster_id
    )
    exposition.add("rabbitmq_identity_info", 1, who)
    ours = status["mirrormq_version"]
    versions = labels(
        rabbitmq_version=settings.product_version, mirrormq_version=ours, prometheus_plugin_version=ours,
        prometheus_client_version=ours, erlang_version=f"none, Python {platform.python_version()}",
    )  # fmt: skip
    exposition.add("rabbitmq_build_info", 1, versions)
    exposition.add("rabbitmq_erlang_uptime_seconds", status["uptime"])
    exposition.add("rabbitmq_erlang_net_ticktime_seconds", node.net_ticktime_s)
    exposition.add("process_start_time_seconds", int(node.started_at_s))


def _machine(node: ManagedNode, exposition: Exposition) -> None:
    now, status = dict(zip(counter_kinds.MACHINE, os_metrics.numbers(node), strict=True)), node.status()
    raised = node.broker.alarms.raised
    for name, value in (
        ("process_resident_memory_bytes", now["mem_used"]),
        ("resident_memory_limit_bytes", status["vm_memory_limit"]),
        ("disk_space_available_bytes", now["disk_free"]),
        ("disk_space_available_limit_bytes", status["disk_free_limit"]),
        ("process_open_fds", now["fd_used"]),
        ("process_max_fds", node.handles_max),
        ("process_open_tcp_sockets", now["sockets_used"]),
        ("process_max_tcp_sockets", node.sockets_max),
        ("alarms_memory_used_watermark", MEMORY in raised),
        ("alarms_free_disk_space_watermark", DISK in raised),
        ("alarms_file_descriptor_limit", now["sockets_used"] >= node.sockets_max),
    ):
        exposition.add(f"rabbitmq_{name}", value)
    for window_s in TURN_WINDOWS_S:
        window = labels(window_seconds=str(window_s))
        exposition.add("mirrormq_turn_longest_seconds", node.longest_turn_s(window_s), window)


def _disk(node: ManagedNode, exposition: Exposition) -> None:
    disk, journal = node.disk, node.broker.journal
    for name, value in (
        ("io_read_ops_total", disk.reads),
        ("io_read_bytes_total", disk.read_bytes),
        ("io_read_time_seconds_total", disk.read_s),
        ("io_write_ops_total", disk.writes),
        ("io_write_bytes_total", disk.written_bytes),
        ("io_write_time_seconds_total", disk.write_s),
        ("io_sync_ops_total", disk.syncs),
        ("io_sync_time_seconds_total", disk.sync_s),
        ("msg_store_read_total", journal.loader.messages_read),
        ("msg_store_write_total", journal.writer.messages_written),
    ):
        exposition.add(f"rabbitmq_{name}", value)
    progress, damage = journal.scrubber.progress, journal.damage
    for name, value in (
        ("running", progress.running),
        ("passes_total", progress.passes_total),
        ("read_bytes_total", progress.read_bytes_total),
        ("segments_done", progress.segments_done),
        ("segments", progress.segments_total),
        ("damaged_stretches_total", progress.damaged_spans_total),
        ("damaged_messages_total", damage.found_total),
        ("repaired_messages_total", damage.repaired_total),
        ("damaged_messages", damage.pending_count),
    ):
        exposition.add(f"mirrormq_scrub_{name}", value)
    exposition.histogram("mirrormq_fsync_duration_seconds", disk.sync_bounds_s, disk.sync_times, disk.sync_s)
