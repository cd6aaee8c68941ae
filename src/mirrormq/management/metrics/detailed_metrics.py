"""Endpoint `/metrics/detailed?family=…&vhost=…`: selected families of metrics per object, under separate
names.

A user who needs only the depth of each of ten thousand queues requests `queue_coarse_metrics`. An unknown
family adds nothing and is no error; `vhost` selects among queues only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.management.metrics.node_metrics import of_node
from mirrormq.management.metrics.object_metrics import ObjectMetrics

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode

FAMILIES = {
    "connection_churn_metrics": """
        channels_closed_total channels_opened_total connections_closed_total connections_opened_total
        queues_created_total queues_declared_total queues_deleted_total""",
    "node_coarse_metrics": """
        disk_space_available_bytes process_open_fds process_open_tcp_sockets process_resident_memory_bytes""",
    "node_metrics": """
        disk_space_available_limit_bytes erlang_net_ticktime_seconds erlang_uptime_seconds process_max_fds
        process_max_tcp_sockets resident_memory_limit_bytes""",
    "node_persister_metrics": """
        io_read_bytes_total io_read_ops_total io_read_time_seconds_total io_sync_ops_total
        io_sync_time_seconds_total io_write_bytes_total io_write_ops_total io_write_time_seconds_total
        msg_store_read_total msg_store_write_total""",
    "auth_attempt_metrics": """
        auth_attempts_failed_total auth_attempts_succeeded_total auth_attempts_total""",
    "connection_coarse_metrics": "connection_incoming_bytes_total connection_outgoing_bytes_total",
    "connection_metrics": """
        connection_channels connection_incoming_packets_total connection_outgoing_packets_total
        connection_pending_packets""",
    "channel_metrics": """
        channel_acks_uncommitted channel_consumers channel_messages_unacked channel_messages_uncommitted
        channel_messages_unconfirmed channel_prefetch consumer_prefetch""",
    "channel_exchange_metrics": """
        channel_messages_confirmed_total channel_messages_published_total
        channel_messages_unroutable_dropped_total channel_messages_unroutable_returned_total""",
    "channel_queue_metrics": """
        channel_get_ack_total channel_get_empty_total channel_get_total channel_messages_acked_total
        channel_messages_delivered_ack_total channel_messages_delivered_total
        channel_messages_redelivered_total""",
    "channel_queue_exchange_metrics": "queue_messages_published_total",
    "queue_coarse_metrics": "queue_messages queue_messages_ready queue_messages_unacked",
    "queue_metrics": """
        queue_consumer_capacity queue_consumer_utilisation queue_consumers queue_disk_reads_total
        queue_disk_writes_total queue_head_message_timestamp queue_messages_bytes queue_messages_paged_out
        queue_messages_paged_out_bytes queue_messages_persistent queue_messages_persistent_bytes
        queue_messages_ram queue_messages_ram_bytes queue_messages_ready_bytes queue_messages_ready_ram
        queue_messages_unacked_bytes queue_messages_unacked_ram queue_process_memory_bytes""",
    "queue_consumer_count": "queue_consumers",
    "vhost_status": "cluster_vhost_status",
    "exchange_names": "cluster_exchange_name",
    "exchange_bindings": "cluster_exchange_bindings",
}
ALWAYS = ("rabbitmq_build_info", "rabbitmq_identity_info")
OWN_NAMES = ("vhost_status", "exchange_names", "exchange_bindings")
"""Families whose metrics exist only here, so that they keep their names."""

SLICE_RECORDS = 500
"""Exchanges reported between two turns of the loop."""


async def detailed(node: ManagedNode, query: Iterable[tuple[str, str]]) -> AsyncIterator[bytes]:
    """Yield the text in pieces."""
    pairs = list(query)
    families = [value for name, value in pairs if name == "family" and value in FAMILIES]
    exposition = Exposition(_wanted(families))
    of_node(node, exposition)
    vhosts = [value for name, value in pairs if name == "vhost"]
    if any(
        exposition.wants(f"rabbitmq_{kind}") for kind in ("connection_", "channel_", "queue_", "consumer_")
    ):
        await ObjectMetrics(node, exposition, per_object=True, vhosts=vhosts).collect()
    await _of_metadata(node, exposition)
    for piece in exposition.pieces():
        yield piece
        await asyncio.sleep(0)


def _wanted(families: list[str]) -> dict[str, str]:
    """Return the metrics of these families and their names on this endpoint."""
    found = {name: name for name in ALWAYS}
    for family in families:
        for name in FAMILIES[family].split():
            prefix = "" if family in OWN_NAMES else "detailed_"
            found[f"rabbitmq_{name}"] = f"rabbitmq_{prefix}{name}"
    return found


async def _of_metadata(node: ManagedNode, exposition: Exposition) -> None:
    if not exposition.wants("rabbitmq_cluster_"):
        return
    state = node.metadata.state
    for vhost in state.vhosts:
        exposition.add("rabbitmq_cluster_vhost_status", 1, labels(vhost=vhost))
    bound: dict[tuple[str, str], int] = {}
    for binding in state.bindings.values():
        place = (binding.vhost, binding.source)
        bound[place] = bound.get(place, 0) + 1
    for number, exchange in enumerate(list(state.exchanges.values())):
        which = labels(vhost=exchange.vhost, exchange=exchange.name, type=exchange.kind)
        if exchange.name:
            count = bound.get((exchange.vhost, exchange.name), 0)
            exposition.add("rabbitmq_cluster_exchange_name", 1, which)
            exposition.add("rabbitmq_cluster_exchange_bindings", count, which)
        if number % SLICE_RECORDS == 0:
            await asyncio.sleep(0)
