"""Order of the test files: the longest first, so that all workers end at about the same time.

`tests/durations.txt` holds the seconds of every file that takes LISTED_S_MIN or more: set-up, tests and
teardown, as one run recorded them. A file that is not listed counts as short and runs in the end. The tests
of a listed file carry the mark `long`, and `make test-quick` leaves them out. To write the table anew, run
the whole suite on a machine that does nothing else:

    make test ARGS=--record-durations

A worker takes whole files. The files that share the Spark session of `tests/spark/conftest.py` go to one
worker: every further session costs processor time to start and to warm up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TABLE = Path(__file__).with_name("durations.txt")
LISTED_S_MIN = 5.0
"""All shorter files together took 180 s of processor time in a run with two workers on a busy machine."""

SPARK = "tests/spark"
OWN_SPARK = frozenset(
    f"{SPARK}/{name}.py"
    for name in (
        "test_example",
        "test_interrupts",
        "test_leases_of_queries",
        "test_notebook",
        "test_pipelines",
        "test_plain_script",
        "test_session",
        "test_small_batches",
    )
)
"""Files of that folder whose tests start a Spark of their own, or none."""


def file_of(test: str) -> str:
    """Path of a test's file, from the root of the repository."""
    return test.partition("::")[0]


def unit_of(test: str) -> str:
    """Return the unit that one worker takes: a file, or all files that share a Spark session."""
    file = file_of(test)
    return SPARK if file.startswith(f"{SPARK}/") and file not in OWN_SPARK else file


def read_durations(table: Path = TABLE) -> dict[str, float]:
    """Seconds by file."""
    rows = [line.split() for line in table.read_text().splitlines()]
    return {path: float(seconds) for seconds, path in rows}


def write_durations(durations: dict[str, float], table: Path = TABLE) -> None:
    """Replace the table by the files that are long enough, the longest first."""
    listed = sorted((-seconds, path) for path, seconds in durations.items() if seconds >= LISTED_S_MIN)
    table.write_text("".join(f"{-seconds:6.1f} {path}\n" for seconds, path in listed))


def order(items: list[pytest.Item], durations: dict[str, float], *, in_worker: bool) -> None:
    """Mark the tests of long files, and move long units to the front where several workers share the tests.

    In one process the order of the files stays, which is the order of their names.
    """
    for item in items:
        if file_of(item.nodeid) in durations:
            item.add_marker("long")
    if in_worker:
        units: defaultdict[str, float] = defaultdict(float)
        for file in {file_of(item.nodeid) for item in items}:
            units[unit_of(file)] += durations.get(file, 0.0)
        items.sort(key=lambda item: -units[unit_of(item.nodeid)])


class Scheduler(LoadScopeScheduling):
    """Hands units to workers in the order of the items."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


class Recorder:
    """Adds up the durations of a run, and writes the table when the run was whole and green."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.add([(report.nodeid, report.duration)])

    def pytest_sessionfinish(self, exitstatus: int | pytest.ExitCode) -> None:
        if exitstatus == pytest.ExitCode.OK:
            write_durations(dict(self._seconds))

    def add(self, phases: Iterable[tuple[str, float]]) -> None:
        """Count set-ups, tests and teardowns, each with its test's name."""
        for test, seconds in phases:
            self._seconds[file_of(test)] += seconds
