"""Resource usage of a node: memory, file handles, sockets, disk. One tuple of numbers, sampled like the
counters of queues."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mirrormq.management.sample_history import Numbers
from mirrormq.management.sample_ranges import SampleRanges

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode
    from mirrormq.management.statistics import Statistics

HANDLES = "/proc/self/fd"


def numbers(node: ManagedNode) -> Numbers:
    """Return the numbers in the order of `counter_kinds.MACHINE`."""
    status, disk = node.status(), node.disk
    return (
        status["memory"]["total"], status["disk_free"], _handles(), len(node.broker.connections),
        disk.reads, disk.read_bytes, disk.writes, disk.written_bytes, disk.syncs,
    )  # fmt: skip


def _handles() -> int:
    try:
        return len(os.listdir(HANDLES))
    except OSError:
        return 0


def shown(node: ManagedNode, statistics: Statistics, ranges: SampleRanges) -> dict[str, Any]:
    """Return the resource usage in RabbitMQ's form; times are in milliseconds."""
    disk = node.disk
    return {
        **statistics.node(ranges),
        "fd_total": node.handles_max,
        "sockets_total": node.sockets_max,
        "io_read_avg_time": _average_ms(disk.read_s, disk.reads),
        "io_write_avg_time": _average_ms(disk.write_s, disk.writes),
        "io_sync_avg_time": _average_ms(disk.sync_s, disk.syncs),
    }


def _average_ms(spent_s: float, count: int) -> float:
    return spent_s * 1000 / count if count else 0.0
