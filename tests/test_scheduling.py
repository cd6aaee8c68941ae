"""The order of test files, and the table that it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scheduling import LISTED_S_MIN, OWN_SPARK, Recorder, read_durations, unit_of, write_durations
from tests.test_tidy import ROOT

pytest_plugins = ["pytester"]

SUITE = {
    "test_a": "def test_1(): pass\ndef test_2(): pass",
    "test_b": "def test_1(): pass",
    "test_c": "def test_1(): pass",
}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Three files, of which the last takes the longest, in a project with our scheduling."""
    pytester.makeconftest(
        """
        import pytest
        from tests.scheduling import Scheduler, order

        @pytest.hookimpl(optionalhook=True)
        def pytest_xdist_make_scheduler(config, log):
            return Scheduler(config, log)

        def pytest_collection_modifyitems(config, items):
            order(items, {"test_b.py": 6.0, "test_c.py": 9.0}, in_worker=hasattr(config, "workerinput"))
        """
    )
    pytester.makeini(f"[pytest]\nmarkers = long\npythonpath = {ROOT}\n")
    pytester.makepyfile(**SUITE)
    return pytester


def test_workers_begin_with_the_longest_files(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_subprocess("-v", "-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")
    ran.assert_outcomes(passed=4)
    names = [line.split()[-1] for line in ran.outlines if line.startswith("[gw0]")]
    assert names == ["test_c.py::test_1", "test_b.py::test_1", "test_a.py::test_1", "test_a.py::test_2"]


def test_files_that_share_a_spark_session_go_to_one_worker() -> None:
    """All others may use the session's fixture."""
    folder = ROOT / "tests" / "spark"
    sharing = [path for path in folder.glob("test_*.py") if "spark: SparkSession" in path.read_text()]
    assert len(sharing) > 5
    assert {unit_of(f"tests/spark/{path.name}::test_x") for path in sharing} == {"tests/spark"}
    assert all((ROOT / path).is_file() for path in OWN_SPARK)
    assert unit_of("tests/spark_client/test_tls.py::test_x[a::b]") == "tests/spark_client/test_tls.py"


def test_one_process_keeps_the_order_of_names(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_subprocess("-v", "-p", "no:xdist")
    names = [line.split()[0] for line in ran.outlines if "PASSED" in line]
    assert names == ["test_a.py::test_1", "test_a.py::test_2", "test_b.py::test_1", "test_c.py::test_1"]


def test_quick_runs_leave_out_the_long_files(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_subprocess("-m", "not long")
    ran.assert_outcomes(passed=2, deselected=2)


def test_a_run_is_recorded_by_file_and_only_if_it_was_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "durations.txt"
    monkeypatch.setattr("tests.scheduling.write_durations", lambda found: write_durations(found, table))
    recorder = Recorder()
    phases = [("tests/a/test_x.py::test_1", 3.0), ("tests/a/test_x.py::test_2[::]", 4.5)]
    recorder.add([*phases, ("tests/test_y.py::test_1", LISTED_S_MIN / 2), ("tests/test_z.py::test_1", 20.0)])
    recorder.pytest_sessionfinish(pytest.ExitCode.TESTS_FAILED)
    assert not table.exists()
    recorder.pytest_sessionfinish(pytest.ExitCode.OK)
    assert table.read_text() == "  20.0 tests/test_z.py\n   7.5 tests/a/test_x.py\n"
    assert read_durations(table) == {"tests/test_z.py": 20.0, "tests/a/test_x.py": 7.5}


def test_every_listed_file_exists() -> None:
    assert [path for path in read_durations() if not (ROOT / path).is_file()] == []
