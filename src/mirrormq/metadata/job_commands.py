"""Job commands: keep the last report of each job, of the most recent jobs in each vhost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.ranges import range_limits
from mirrormq.ranges.range_protocol import RUNNING

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def put_job(state: MetadataState, command: c.PutJob) -> None:
    """Store a job's report. Forget the job with the oldest report if the vhost has too many."""
    job = command.record
    if job.vhost not in state.vhosts:
        return
    before = state.jobs.get(job.key)
    still_running = before is not None and before.state == RUNNING
    started_ms = before.started_ms if before is not None and still_running else job.reported_ms
    if before is None:
        others = [other for other in state.jobs.values() if other.vhost == job.vhost]
        if len(others) >= range_limits.JOBS_PER_VHOST_MAX:
            state.remove(min(others, key=lambda other: (other.reported_ms, other.name)))
    state.store(msgspec.structs.replace(job, started_ms=started_ms))


def delete_job(state: MetadataState, command: c.DeleteJob) -> None:
    if job := state.jobs.get((command.vhost, command.name)):
        state.remove(job)
