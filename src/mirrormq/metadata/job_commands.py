"""What commands about jobs do to the state: the last word of each, of the last few in each vhost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.ranges import range_limits
from mirrormq.ranges.range_protocol import RUNNING

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def put_job(state: MetadataState, command: c.PutJob) -> None:
    """A job speaks. If it is one too many, the one that has been silent for longest is forgotten."""
    job = command.record
    if job.vhost not in state.vhosts:
        return
    before = state.jobs.get(job.key)
    goes_on = before is not None and before.state == RUNNING
    started_ms = before.started_ms if before is not None and goes_on else job.reported_ms
    if before is None:
        others = [other for other in state.jobs.values() if other.vhost == job.vhost]
        if len(others) >= range_limits.JOBS_PER_VHOST_MAX:
            state.remove(min(others, key=lambda other: (other.reported_ms, other.name)))
    state.store(msgspec.structs.replace(job, started_ms=started_ms))


def delete_job(state: MetadataState, command: c.DeleteJob) -> None:
    """A job is forgotten."""
    if job := state.jobs.get((command.vhost, command.name)):
        state.remove(job)
