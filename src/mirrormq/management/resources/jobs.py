"""Resource: jobs outside the broker, as they reported themselves; for monitoring users and users of the
vhost."""

from __future__ import annotations

import time
from typing import Any

from mirrormq.leases.job_reports import job_row, job_table, jobs_of
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import missing, not_authorised
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata.commands import DeleteJob
from mirrormq.metadata.records import Job


def list_jobs(call: ApiRequest) -> ListReply:
    """Return the jobs without their tables, the latest report first."""
    everything = call.is_monitor and "vhost" not in call.parts
    seen = set(call.state.vhosts if everything else call.chosen_vhosts())
    now_ms = _now_ms()
    return ListReply(jobs_of(call.state, seen), lambda job: job_row(job, now_ms), lambda job: str(job.name))


def show_job(call: ApiRequest) -> dict[str, Any]:
    """Return one job with its table."""
    job = _job_of_path(call)
    return {**job_row(job, _now_ms()), "table": job_table(job)}


def forget_job(call: ApiRequest) -> EmptyReply:
    """Delete a job; only administrators and the job's user may do so."""
    job = _job_of_path(call)
    if access.ADMINISTRATOR not in call.user.tags and job.user != call.user.name:
        raise not_authorised(
            f"access to job '{job.name}' in vhost '{job.vhost}' refused for user '{call.user.name}'"
        )
    call.write(DeleteJob(job.vhost, job.name))
    return EmptyReply()


def _now_ms() -> int:
    return int(time.time() * 1000)


def _job_of_path(call: ApiRequest) -> Job:
    job = call.state.jobs.get((call.vhost, call.name))
    if job is None:
        raise missing("Not Found")
    return job


ROUTES = [
    ApiRoute("mirrormq/jobs", access.management, {"GET": list_jobs}),
    ApiRoute("mirrormq/jobs/{vhost}", access.visible_vhost, {"GET": list_jobs}),
    ApiRoute("mirrormq/jobs/{vhost}/{name}", access.visible_vhost, {"GET": show_job, "DELETE": forget_job}),
]
