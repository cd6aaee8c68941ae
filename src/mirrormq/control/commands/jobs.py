"""Command that lists the jobs outside the broker, as they last reported themselves (`docs/ranges.md`).
Every node knows all jobs."""

from __future__ import annotations

import time
from typing import Any

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import NodeShell
from mirrormq.leases.job_reports import job_row, jobs_of


def list_jobs(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """Return one row per job of a vhost, the latest report first."""
    now_ms = int(time.time() * 1000)
    return [job_row(job, now_ms) for job in jobs_of(node.metadata.state, [request.vhost])]


COMMANDS = {"list_jobs": list_jobs}
