"""Jobs in the metadata: the last word counts, there is room for so many, and they go with their vhost."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import records, state_diff
from mirrormq.metadata.durability import outlives_restart
from mirrormq.metadata.state import MetadataState
from mirrormq.ranges import range_limits


@pytest.fixture
def state() -> MetadataState:
    state = MetadataState()
    for vhost in ("/", "other"):
        state.apply(c.PutVhost(records.Vhost(vhost)))
    return state


def job(name: str = "nightly", state: str = "running", at_ms: int = 1000, vhost: str = "/") -> records.Job:
    numbers: dict[str, bool | int | float | str] = {"rows": 5, "rate": 2.5, "last": True, "file": "a"}
    return records.Job(vhost, name, "archive", state, "guest", "a@b", at_ms, "text", numbers, '[{"a":1}]')


def test_the_last_word_is_kept_with_the_time_of_the_first(state: MetadataState) -> None:
    state.apply(c.PutJob(job(at_ms=1000)))
    state.apply(c.PutJob(job(at_ms=2000)))
    found = state.jobs["/", "nightly"]
    assert (found.started_ms, found.reported_ms) == (1000, 2000)
    state.apply(c.PutJob(job(state="done", at_ms=3000)))
    assert state.jobs["/", "nightly"].started_ms == 1000
    state.apply(c.PutJob(job(at_ms=9000)))
    assert state.jobs["/", "nightly"].started_ms == 9000, "another run under the same name"


def test_the_one_that_is_silent_for_longest_makes_room(state: MetadataState) -> None:
    state.apply(c.PutJob(job("elsewhere", at_ms=1, vhost="other")))
    for number in range(range_limits.JOBS_PER_VHOST_MAX):
        state.apply(c.PutJob(job(f"run {number}", at_ms=1000 + number)))
    state.apply(c.PutJob(job("run 0", at_ms=5000)))
    assert len(state.jobs) == range_limits.JOBS_PER_VHOST_MAX + 1
    state.apply(c.PutJob(job("new", at_ms=6000)))
    assert len(state.jobs) == range_limits.JOBS_PER_VHOST_MAX + 1
    assert ("/", "run 1") not in state.jobs
    assert {("/", "run 0"), ("/", "new"), ("other", "elsewhere")} <= set(state.jobs)


def test_jobs_are_deleted_with_their_vhost_and_on_request(state: MetadataState) -> None:
    state.apply(c.PutJob(job()))
    state.apply(c.PutJob(job(vhost="other")))
    assert not state.apply(c.PutJob(job(vhost="nowhere")))
    state.apply(c.DeleteVhost("other"))
    assert set(state.jobs) == {("/", "nightly")}
    assert state.apply(c.DeleteJob("/", "nightly"))
    assert not state.jobs
    assert not state.apply(c.DeleteJob("/", "nightly"))


def test_jobs_are_in_snapshots_and_in_the_log(state: MetadataState) -> None:
    command = c.PutJob(job("nächtlich \udcff"))
    assert c.decode(c.encode(command)) == command
    state.apply(command)
    blob = state.snapshot()
    assert MetadataState.from_snapshot(blob).jobs == state.jobs
    other = MetadataState()
    list(state_diff.changes_to(other, blob))
    assert other.jobs == state.jobs


def test_only_the_end_of_a_job_is_forced_to_the_disk_of_a_node_on_its_own(state: MetadataState) -> None:
    assert not outlives_restart(state, c.PutJob(job()))
    assert outlives_restart(state, c.PutJob(job(state="done")))
    assert outlives_restart(state, c.DeleteJob("/", "nightly"))
