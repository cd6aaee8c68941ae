"""`mirrormq migrate` without clusters: errors are one sentence that says what to do, with an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirrormq.migration.migration_records import Plan
from mirrormq.migration.phases import Step
from mirrormq.migration.survey_findings import BLOCKER, Finding
from mirrormq.migration_io.migration_directory import MigrationDirectory
from tests.brokers.ports import free_port

USAGE, UNAVAILABLE, BLOCKED = 64, 69, 1


def migrate(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mirrormq.cli.main", "migrate", *words, "--dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def planned(tmp_path: Path) -> MigrationDirectory:
    """Directory of a migration that is planned, between clusters that do not exist."""
    made = MigrationDirectory(tmp_path / "m")
    port = free_port()
    http, amqp = f"http://a:b@127.0.0.1:{port}", f"amqp://a:b@127.0.0.1:{port}"
    made.create(Plan("1", "now", [http], [amqp], [http], [amqp], [], [], [], []))
    return made


@pytest.mark.parametrize(
    "words", [("run",), ("status",), ("verify",), ("switch", "consumers"), ("rollback",), ("finish",)]
)
def test_a_directory_without_a_migration(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = migrate(tmp_path / "none", *words)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert f"{tmp_path / 'none'} holds no migration: run 'mirrormq migrate plan --dir" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_cluster_that_does_not_reply(tmp_path: Path) -> None:
    port = free_port()
    addresses = ["--from", f"http://a:secret@127.0.0.1:{port}", "--from-amqp", f"amqp://127.0.0.1:{port}"]
    done = migrate(tmp_path / "m", "plan", *addresses)
    assert done.returncode == UNAVAILABLE
    assert done.stderr.startswith(
        f"mirrormq migrate plan: no node of the old cluster replies: 127.0.0.1:{port}"
    )
    assert "secret" not in done.stderr


def test_options_that_belong_together(tmp_path: Path) -> None:
    addresses = ["--from", "http://127.0.0.1:1", "--from-amqp", "amqp://127.0.0.1:1"]
    done = migrate(tmp_path / "m", "plan", *addresses, "--haproxy", "/run/haproxy.sock")
    assert done.returncode == USAGE
    assert "--haproxy, --consumers and --producers belong together" in done.stderr


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            ("switch", "consumers"),
            "'switch consumers' is not possible in phase planned: run 'mirrormq migrate run' first",
        ),
        (("switch", "producers"), "'switch producers' is not possible in phase planned"),
        (("rollback",), "'rollback' is not possible in phase planned"),
        (("finish",), "'finish' is not possible in phase planned"),
    ],
)
def test_a_step_that_the_phase_does_not_allow(
    planned: MigrationDirectory, words: tuple[str, ...], advice: str
) -> None:
    done = migrate(planned.path, *words)
    assert done.returncode == USAGE
    assert advice in done.stderr


def test_nothing_carries_a_step_out(planned: MigrationDirectory) -> None:
    planned.advance(Step.RUN)
    done = migrate(planned.path, "switch", "consumers")
    assert done.returncode == USAGE
    assert "start 'mirrormq migrate run --dir" in done.stderr
    assert planned.state().phase == "following", "the step was not made"


def test_status_of_a_migration_that_nobody_runs(planned: MigrationDirectory) -> None:
    assert "Nothing carries the migration out now" in migrate(planned.path, "status").stdout
    shown = json.loads(migrate(planned.path, "status", "--json").stdout)
    assert (shown["running"], shown["status"], shown["state"]["history"][0]["phase"]) == (
        False,
        None,
        "planned",
    )


def test_blockers_stop_the_run(tmp_path: Path) -> None:
    made = MigrationDirectory(tmp_path / "m")
    blocker = Finding(BLOCKER, "queues", "log", "a stream", "archive it")
    made.create(Plan("1", "now", ["http://x"], [], ["http://x"], [], [], [], [blocker], []))
    done = migrate(made.path, "run")
    assert done.returncode == USAGE
    assert "blockers: queues:log; follow their remedies and plan again" in done.stderr


def test_passwords_are_for_the_owner_only(planned: MigrationDirectory) -> None:
    assert os.stat(planned.path / "plan.json").st_mode & 0o077 == 0


def test_a_directory_in_use_is_not_planned_again(planned: MigrationDirectory) -> None:
    plan = planned.plan()
    planned.create(plan)
    planned.advance(Step.RUN)
    with pytest.raises(Exception, match="holds a migration in phase following: choose another directory"):
        planned.create(plan)


@pytest.mark.parametrize("command", ["plan", "run", "status", "verify", "rollback", "finish"])
def test_every_command_has_an_example(tmp_path: Path, command: str) -> None:
    shown = migrate(tmp_path, command, "--help").stdout
    assert f"mirrormq migrate {command}" in shown.split("Example:")[1]
