"""Invalid options are refused with one sentence on stderr and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from mirrormq.cli.program import app
from mirrormq.history import SCHEMA, HistoryWriter
from mirrormq.spark.audit.history_events import read_events
from mirrormq.spark.pipeline_errors import PipelineError
from tests.brokers.ports import free_port


@pytest.fixture
def history(tmp_path: Path) -> Path:
    with HistoryWriter(tmp_path / "history") as writer:
        writer.attempted("q", 1, 1, "a")
    return tmp_path / "history"


def refused(*arguments: str) -> str:
    """Return the error sentence; nothing here starts Spark."""
    result = CliRunner().invoke(app, ["pipeline", "audit", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.strip().removeprefix("mirrormq pipeline audit: ")


def test_no_history(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert refused("--history", missing) == (
        f"there is no history at {missing}: give --history the directory that mirrormq chaos wrote"
    )


def test_an_empty_directory(tmp_path: Path) -> None:
    assert refused("--history", str(tmp_path)).endswith("the directory has no Parquet files")
    (tmp_path / ".load-00000.parquet.open").touch()
    assert refused("--history", str(tmp_path)).endswith("only files that were never finished")


def test_a_report_that_cannot_be_written(history: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "audit.html")
    assert f"there is no directory {tmp_path / 'no'}" in refused(
        "--history", str(history), "--report", nowhere
    )
    assert refused("--history", str(history), "--report", str(tmp_path)).endswith("is a directory")


@pytest.mark.parametrize("master", ["", "locl[2]", "http://somewhere", "spark:host"])
def test_a_master_that_is_none(history: Path, master: str) -> None:
    assert "is no Spark master: use local[N]" in refused("--history", str(history), "--master", master)


@pytest.mark.parametrize(("scheme", "what"), [("sc", "Spark Connect server"), ("spark", "Spark master")])
def test_a_server_that_does_not_answer(history: Path, scheme: str, what: str) -> None:
    port = free_port()
    said = refused("--history", str(history), "--master", f"{scheme}://127.0.0.1:{port}")
    assert said == f"no {what} answers at 127.0.0.1:{port} (Connection refused): start it or correct --master"
    assert "valid host and port" in refused("--history", str(history), "--master", f"{scheme}://a:b")


@pytest.mark.parametrize("pair", ["spark.driver.memory", "memory=2g"])
def test_a_setting_of_the_wrong_form(history: Path, pair: str) -> None:
    said = refused("--history", str(history), "--conf", pair)
    assert said == f"--conf {pair} is not of the form spark.KEY=VALUE"


def test_a_missing_option_names_itself() -> None:
    result = CliRunner().invoke(app, ["pipeline", "audit"])
    assert result.exit_code == 2
    assert "--history" in result.stderr


def test_a_live_audit_is_checked_before_spark_starts(history: Path, tmp_path: Path) -> None:
    assert refused("--live", "--history", str(history)) == "give either --history DIRECTORY or --live"
    assert refused("--live", "--grace", "soon") == "soon is no interval such as 10s or 1 minute"
    assert refused("--live", "--queues", "(").startswith("--queues is no regular expression")
    assert "use a --master other than sc://" in refused("--live", "--master", "sc://h")
    assert "there is no directory" in refused("--live", "--report", str(tmp_path / "no" / "live.html"))
    assert "must begin with amqp:// or amqps://" in refused("--live", "--uri", "http://h")
    assert "must begin with amqp:// or amqps://" in refused("--history", str(history), "--uri", "http://h")


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(app, ["pipeline", "audit", "--help"])
    assert result.exit_code == 0
    assert "mirrormq pipeline audit --history var/history" in result.stdout


def test_parquet_of_another_kind(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"run": pa.array([1], pa.int32())}), tmp_path / "other.parquet")
    with pytest.raises(PipelineError, match="its column time_ns is missing, not bigint"):
        read_events(spark, str(tmp_path))
    columns = {field.name: pa.nulls(1, field.type) for field in SCHEMA} | {"kind": pa.array([1])}
    pq.write_table(pa.table(columns), tmp_path / "other.parquet")
    with pytest.raises(PipelineError, match="its column kind is bigint, not string"):
        read_events(spark, str(tmp_path))


def test_a_file_that_is_no_parquet(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"this is not Parquet at all")
    with pytest.raises(PipelineError, match=r"cannot be read as a history") as caught:
        read_events(spark, str(tmp_path))
    assert "\n" not in str(caught.value)


def test_without_spark_installed_it_says_how_to_get_it(history: Path) -> None:
    """Run in a process in which the packages of the extra cannot be imported."""
    script = (
        "import sys, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name in ('pyspark', 'pyarrow') else real(name, *rest)\n"
        "from mirrormq.cli.main import main\n"
        f"main(['pipeline', 'audit', '--history', {str(history)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "mirrormq pipeline audit: Spark is not installed: run pip install 'mirrormq[spark]'\n"
    )


def test_the_broker_and_other_commands_do_not_load_spark() -> None:
    script = (
        "import sys, mirrormq.cli.main, mirrormq.runtime.node\n"
        "print([name for name in ('pyspark', 'py4j', 'pandas', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
