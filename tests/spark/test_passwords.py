"""Passwords come from an option, a file or the environment; a wrong one is reported before Spark starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.spark.data_source_options import sink_options
from mirrormq.spark.jobs import archive, replay, stats
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.pipeline_errors import PipelineError


def test_a_password_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    monkeypatch.setenv("BROKER_PASSWORD", "from the environment")
    given = {"uri": "amqp://u:uri@h"}
    for option, value, expected in (
        ("password", "plain", "plain"),
        ("passwordFile", str(file), "from a file"),
        ("passwordEnv", "BROKER_PASSWORD", "from the environment"),
    ):
        assert sink_options({**given, option: value}).addresses[0].password == expected
    assert sink_options(given).addresses[0].password == "uri"


def test_a_password_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    given = {"uri": "amqp://h"}
    (tmp_path / "empty").write_text("\n")
    for options, said in (
        ({"passwordFile": str(tmp_path / "none")}, "which cannot be read: No such file"),
        ({"passwordFile": str(tmp_path / "empty")}, "which is empty"),
        ({"passwordEnv": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE, which is not set where the driver runs"),
        ({"passwordEnv": "A", "password": "b"}, "set only one of the options password and passwordEnv"),
    ):
        with pytest.raises(OptionError, match=said):
            sink_options({**given, **options})


def test_a_wrong_password_is_reported_before_spark_starts(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*given: object) -> None:
        raise AssertionError("Spark was started")

    wrong = uri.replace("guest:guest", "guest:wrong")
    (tmp_path / "archive").mkdir()
    for job in (archive, replay, stats):
        monkeypatch.setattr(job, "session_for", start)
    runs: list[Callable[[], object]] = [
        lambda: archive.run(archive.ArchiveOptions(wrong, ".*", str(tmp_path / "to"))),
        lambda: replay.run(replay.ReplayOptions(wrong, str(tmp_path / "archive"))),
        lambda: stats.run(stats.StatsOptions(wrong, str(tmp_path / "stats"))),
    ]
    for run in runs:
        with pytest.raises(PipelineError, match="ACCESS_REFUSED"):
            run()
