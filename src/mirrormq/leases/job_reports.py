"""Job reports: state of external jobs, shown to operators of the cluster.

A job's last report is a metadata record (`metadata.job_commands`): every node shows it, and it survives
the node that received it. A user who may connect to a vhost may report there. One job name belongs to one
user, so that no user can report for another.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.errors import AccessRefused, PreconditionFailed
from mirrormq.leases.lease_host import LeaseHost, RequestChannel
from mirrormq.metadata import commands, records
from mirrormq.ranges import range_limits, range_protocol
from mirrormq.ranges.range_request import Answered, RequestValues, reply
from mirrormq.wire.fields import table_of

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState

SILENT = "silent"
"""Shown state of a running job that has stopped reporting."""

_rows = msgspec.json.Decoder(list[dict[str, bool | int | float | str | None]])


class JobReports:
    """Receiver of job reports on one node."""

    def __init__(self, broker: LeaseHost) -> None:
        self._broker = broker

    def reported(self, channel: RequestChannel, values: RequestValues, answered: Answered) -> None:
        """Store the report of a client about a job."""
        job = self._read(channel, values)
        before = self._broker.metadata.state.jobs.get(job.key)
        if before is not None and before.user != job.user and "administrator" not in channel.user.tags:
            raise AccessRefused(
                f"access to job '{job.name}' in vhost '{job.vhost}' refused for user '{job.user}'"
            )
        if before is not None and _too_soon(job, before):
            answered(reply(table_of({"kept": False})))
            return
        metadata = self._broker.metadata

        def known() -> None:
            answered(reply(table_of({"kept": True})))

        self._broker.write(commands.PutJob(job), job.user, lambda: metadata.wait_applied_on_all(known))

    def _read(self, channel: RequestChannel, values: RequestValues) -> records.Job:
        state = values.text("state")
        if state not in range_protocol.JOB_STATES:
            raise PreconditionFailed(
                f"a job has no state '{state}'; there is {', '.join(range_protocol.JOB_STATES)}"
            )
        text = values.text("text") if values.has("text") else ""
        _check_size("a job's text", text, 0, range_limits.JOB_TEXT_BYTES_MAX)
        return records.Job(
            channel.vhost.name, _name(values, "job"), _name(values, "kind"), state, channel.user.name,
            self._broker.settings.name, self._broker.clock.now_ms, text, _numbers(values), _table(values),
        )  # fmt: skip


# -- listings -----------------------------------------------------------------------------------


def jobs_of(state: MetadataState, vhosts: Collection[str]) -> list[records.Job]:
    """Return the jobs of some vhosts, the most recent report first."""
    jobs = [job for job in state.jobs.values() if job.vhost in vhosts]
    return sorted(jobs, key=lambda job: (-job.reported_ms, job.vhost, job.name))


def job_row(job: records.Job, now_ms: int) -> dict[str, Any]:
    """Return a job as operators see it, without its table."""
    age_ms = max(0, now_ms - job.reported_ms)
    silent = job.state == range_protocol.RUNNING and age_ms >= range_limits.JOB_SILENT_MS
    return {
        "vhost": job.vhost,
        "job": job.name,
        "kind": job.kind,
        "state": SILENT if silent else job.state,
        "text": job.text,
        "numbers": job.numbers,
        "user": job.user,
        "node": job.node,
        "started": job.started_ms,
        "reported": job.reported_ms,
        "age": age_ms // 1000,
    }


def job_table(job: records.Job) -> list[dict[str, Any]]:
    """Return the rows of a job's last report."""
    return list(_rows.decode(job.table)) if job.table else []


# -- validation ---------------------------------------------------------------------------------


def _too_soon(job: records.Job, before: records.Job) -> bool:
    still_running = before.state == job.state == range_protocol.RUNNING
    return still_running and 0 <= job.reported_ms - before.reported_ms < range_limits.JOB_REPORT_INTERVAL_MS


def _name(values: RequestValues, header: str) -> str:
    name = values.text(header)
    _check_size(f"the header '{header}'", name, 1, range_limits.JOB_NAME_BYTES_MAX)
    return name


def _check_size(what: str, text: str, least: int, most: int) -> None:
    if not least <= len(text.encode("utf-8", "surrogateescape")) <= most:
        raise PreconditionFailed(f"{what} has {least} to {most} bytes")


def _numbers(values: RequestValues) -> dict[str, bool | int | float | str]:
    numbers = values.scalars("numbers")
    if len(numbers) > range_limits.JOB_NUMBERS_MAX:
        raise PreconditionFailed(f"a job reports {range_limits.JOB_NUMBERS_MAX} numbers at most")
    for name, value in numbers.items():
        _check_size("the name of a job's number", name, 1, range_limits.JOB_NUMBER_NAME_BYTES_MAX)
        if isinstance(value, str):
            _check_size(f"'{name}' of a job", value, 0, range_limits.JOB_NUMBER_TEXT_BYTES_MAX)
    return numbers


def _table(values: RequestValues) -> str:
    if not values.has("table"):
        return ""
    table = values.text("table")
    _check_size("a job's table", table, 0, range_limits.JOB_TABLE_BYTES_MAX)
    try:
        rows = _rows.decode(table.encode("utf-8", "surrogateescape"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise PreconditionFailed("a job's table is JSON: a list of objects of numbers and texts") from None
    if any(len(row) > range_limits.JOB_TABLE_COLUMNS_MAX for row in rows):
        raise PreconditionFailed(f"a job's table has {range_limits.JOB_TABLE_COLUMNS_MAX} columns at most")
    return table
