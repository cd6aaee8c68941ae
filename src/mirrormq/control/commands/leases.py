"""Commands that list and release leases, and list jobs (`docs/ranges.md`).

Every node knows every lease. Only the master of its queue knows when a lease was last used.
"""

from __future__ import annotations

import time
from typing import Any

from mirrormq.control.control_protocol import EXIT_USAGE, ControlError, Request
from mirrormq.control.node_fanout import HERE, at, rows_of_all_nodes
from mirrormq.control.node_interface import NodeShell
from mirrormq.leases.job_reports import job_row, jobs_of


async def list_leases(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return one row per lease of a vhost; the row comes from the queue's master."""
    live, vhost = node.live, request.vhost
    rows = await rows_of_all_nodes(node, request, lambda: live.leases(vhost))
    if not request.flag(HERE):
        rows += live.leases(vhost, masterless=True)
    return sorted(rows, key=lambda row: (row["queue"], row["name"]))


async def release_lease(node: NodeShell, request: Request) -> str:
    """Release a lease: its messages return to the queue."""
    vhost, (queue, name) = request.vhost, request.arguments
    live, record = node.live, node.metadata.state.queues.get((vhost, queue))
    # A down queue has no master: this node releases its lease in the metadata.
    here = record is None or record.waits_for
    master = node.settings.name if record is None or here else record.ring.master

    def own() -> int | None:
        return live.release_lease(vhost, queue, name)

    count = await at(node, master, request, own)
    if count is None:
        raise ControlError(f"Queue '{queue}' in vhost '{vhost}' has no lease '{name}'", EXIT_USAGE)
    return f"{count} messages return to queue '{queue}'"


def list_jobs(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return one row per job of a vhost, the latest report first. Every node knows all jobs."""
    now_ms = int(time.time() * 1000)
    return [job_row(job, now_ms) for job in jobs_of(node.metadata.state, [request.vhost])]


COMMANDS = {
    "list_leases": list_leases,
    "release_lease": release_lease,
    "list_jobs": list_jobs,
}
