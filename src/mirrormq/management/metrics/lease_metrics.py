"""Metrics of leases of this node's queues, and of jobs that report to this node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mirrormq.leases.job_reports import job_row
from mirrormq.management.metrics.exposition import Exposition, labels
from mirrormq.ranges.range_protocol import JOB_STATES, RUNNING

if TYPE_CHECKING:
    from mirrormq.management.managed_node import ManagedNode


def of_leases(node: ManagedNode, exposition: Exposition, per_object: bool) -> None:
    """Add what leases hold and how long they are unused: of each lease, or the sums and the longest time."""
    broker = node.broker
    now_ms = broker.clock.now_ms
    rows = [row for vhost in broker.metadata.state.vhosts for row in node.live.leases(vhost)]
    idle_s = [max(0, now_ms - (row["idle_since"] or now_ms)) / 1000 for row in rows]
    exposition.add("mirrormq_leases", len(rows))
    if not per_object:
        exposition.add("mirrormq_lease_messages", sum(row["messages"] for row in rows))
        exposition.add("mirrormq_lease_bytes", sum(row["message_bytes"] for row in rows))
        exposition.add("mirrormq_lease_idle_seconds", max(idle_s, default=0))
        return
    for metric in ("mirrormq_lease_messages", "mirrormq_lease_bytes", "mirrormq_lease_idle_seconds"):
        exposition.announce(metric)
    for row, idle in zip(rows, idle_s, strict=True):
        named = labels(vhost=row["vhost"], queue=row["queue"], lease=row["name"])
        exposition.add("mirrormq_lease_messages", row["messages"], named)
        exposition.add("mirrormq_lease_bytes", row["message_bytes"], named)
        exposition.add("mirrormq_lease_idle_seconds", idle, named)


def of_jobs(node: ManagedNode, exposition: Exposition) -> None:
    """Add the numbers that running jobs report, such as `behind` and `per_second`, and the jobs by state."""
    broker = node.broker
    name, now_ms = broker.settings.name, broker.clock.now_ms
    rows = [job_row(job, now_ms) for job in broker.metadata.state.jobs.values() if job.node == name]
    states = Counter(row["state"] for row in rows)
    for state in dict.fromkeys((*JOB_STATES, *states)):
        exposition.add("mirrormq_jobs", states[state], labels(state=state))
    exposition.announce("mirrormq_job_number")
    for row in rows:
        if row["state"] != RUNNING:
            continue
        for number, value in row["numbers"].items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                # Not `job`: Prometheus has a label of that name for what it scrapes.
                named = labels(vhost=row["vhost"], job_name=row["job"], kind=row["kind"], number=number)
                exposition.add("mirrormq_job_number", value, named)
