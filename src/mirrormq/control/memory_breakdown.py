"""Memory breakdown of a node, under RabbitMQ's names.

Python reports the size of the process, not its use. The size of messages is counted; that of connections,
channels and queues is estimated from their number and a measured cost per object. The rest is
`other_system`: interpreter, modules, metadata, buffers. Categories that do not exist here are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.control.queue_info import QUEUE_BYTES

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

CONNECTION_BYTES = 10_300
"""Cost of a connection without channels, measured over 400 connections."""
CHANNEL_BYTES = 5_700
"""Cost of a channel without consumers, measured over 2,000 channels."""
MIRROR_BYTES = 10_500
"""Cost of a mirror of an empty queue, measured over 2,000 queues on two nodes: 8,500 and 12,500."""

_KINDS = """
connection_readers connection_writers connection_channels connection_other queue_procs queue_slave_procs
quorum_queue_procs quorum_queue_dlx_procs stream_queue_procs stream_queue_replica_reader_procs
stream_queue_coordinator_procs plugins other_proc metrics mgmt_db mnesia quorum_ets other_ets binary msg_index
code atom other_system allocated_unused reserved_unallocated
"""
KINDS = tuple(_KINDS.split())


def memory_parts(broker: Broker, total_bytes: int) -> dict[str, int]:
    """Return bytes per category; their sum is `total_bytes`."""
    connections = broker.connections
    me, queues = broker.settings.name, broker.metadata.state.queues.values()
    reckoned = {
        "binary": broker.hot_budget.used_bytes,
        "queue_procs": QUEUE_BYTES * sum([record.ring.master == me for record in queues]),
        "queue_slave_procs": MIRROR_BYTES * sum([me in record.ring.members[1:] for record in queues]),
        "connection_other": CONNECTION_BYTES * len(connections),
        "connection_channels": CHANNEL_BYTES * sum([len(each.open_channels()) for each in connections]),
    }
    parts, left = dict.fromkeys(KINDS, 0), total_bytes
    for kind, size in reckoned.items():
        # Estimates may exceed the measured total: cap them, so that the sum stays exact.
        parts[kind] = min(size, left)
        left -= parts[kind]
    parts["other_system"] = left
    return parts
