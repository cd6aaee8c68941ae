"""Jobs outside the broker, as they have told of themselves (`docs/ranges.md`). Every node knows all."""

from __future__ import annotations

import time
from typing import Any

from mirrormq.broker.asking.jobs import job_row, jobs_of
from mirrormq.control.node import Shell
from mirrormq.control.protocol import Request


def list_jobs(node: Shell, request: Request) -> list[dict[str, Any]]:
    """One row per job of a vhost, the one that spoke last first."""
    now_ms = int(time.time() * 1000)
    return [job_row(job, now_ms) for job in jobs_of(node.metadata.state, [request.vhost])]


VERBS = {"list_jobs": list_jobs}
