"""A history can be read back as it was recorded, and a crash costs only its last moments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirrormq.history import SCHEMA, VERSION, HistoryWriter, SteadyClock
from mirrormq.history.event_schema import VERSION_KEY


def rows(directory: Path) -> list[dict[str, object]]:
    """All rows of the finished files, in the order of their names, without nulls."""
    found = []
    for path in sorted(directory.glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_every_event_comes_back_with_what_it_was_given(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, run=3) as history:
        history.attempted("q", 1, 7, "a", time_ns=10)
        history.confirmed("q", 1, [7, 8], "a", time_ns=11)
        history.nacked("q", 1, [9], "a", time_ns=12)
        history.returned("q", 1, 10, "a", time_ns=13)
        history.delivered("q", 1, 7, "b", 4, redelivered=True, attempt=2, time_ns=14)
        history.acknowledged("q", 1, 7, "b", 4, time_ns=15)
        history.cancelled("q", "b", 4, time_ns=16)
        history.disconnected("b", consumer=4, detail="reset", time_ns=17)
        fault = history.fault_began("kill", "a", detail="SIGKILL", time_ns=18)
        history.fault_ended(fault, time_ns=19)
        history.master("q", "a", 1, time_ns=20)
        history.master_confirmed("q", "a", 1, count=5, time_ns=21)
        history.replica("q", "a", 1, 99, 2**64 - 1, 6, time_ns=22)
        history.drained("q", time_ns=23)
    message = {"run": 3, "queue": "q", "publisher": 1}
    cluster = {"run": 3, "queue": "q", "node": "a", "epoch": 1}
    expected = [
        {**message, "time_ns": 10, "kind": "attempted", "node": "a", "number": 7, "attempt": 1},
        {**message, "time_ns": 11, "kind": "confirmed", "node": "a", "number": 7},
        {**message, "time_ns": 11, "kind": "confirmed", "node": "a", "number": 8},
        {**message, "time_ns": 12, "kind": "nacked", "node": "a", "number": 9},
        {**message, "time_ns": 13, "kind": "returned", "node": "a", "number": 10},
        {**message, "time_ns": 14, "kind": "delivered", "node": "b", "number": 7, "attempt": 2, "consumer": 4,
         "redelivered": True},
        {**message, "time_ns": 15, "kind": "acknowledged", "node": "b", "number": 7, "consumer": 4},
        {"run": 3, "time_ns": 16, "kind": "cancelled", "queue": "q", "node": "b", "consumer": 4},
        {"run": 3, "time_ns": 17, "kind": "disconnected", "node": "b", "consumer": 4, "detail": "reset"},
        {"run": 3, "time_ns": 18, "kind": "fault_began", "fault": 0, "what": "kill", "node": "a",
         "detail": "SIGKILL"},
        {"run": 3, "time_ns": 19, "kind": "fault_ended", "fault": 0},
        {**cluster, "time_ns": 20, "kind": "master"},
        {**cluster, "time_ns": 21, "kind": "master_confirmed", "count": 5},
        {**cluster, "time_ns": 22, "kind": "replica", "sequence": 99, "checksum": -1, "count": 6},
        {"run": 3, "time_ns": 23, "kind": "drained", "queue": "q", "count": 0},
    ]  # fmt: skip
    assert rows(tmp_path) == expected


def test_files_carry_the_schema_and_its_version(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        history.drained("q")
    schema = pq.read_schema(tmp_path / "load-00000.parquet")
    assert schema.equals(SCHEMA)
    assert schema.metadata[VERSION_KEY.encode()] == str(VERSION).encode()


def test_files_are_cut_by_rows_and_rows_are_in_groups(tmp_path: Path) -> None:
    count = 100_000
    with HistoryWriter(tmp_path, rows_per_group=8192, rows_per_file=30_000) as history:
        for number in range(count):
            history.attempted("q", 1, number, "a")
    files = [pq.ParquetFile(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert [file.metadata.num_rows for file in files] == [32768, 32768, 32768, count - 3 * 32768]
    assert files[0].metadata.num_row_groups == 4
    assert [row["number"] for row in rows(tmp_path)] == list(range(count))


def test_deliveries_at_one_time_keep_their_order(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, clock=lambda: 500) as history:
        for number in (3, 1, 2):
            history.delivered("q", 1, number, "a", 1, redelivered=False)
        history.attempted("q", 1, 4, "a")
    found = rows(tmp_path)
    assert [(row["time_ns"], row["number"]) for row in found] == [(500, 3), (501, 1), (502, 2), (500, 4)]


def test_two_writers_share_a_directory_and_a_second_run_adds_to_it(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "load") as first, HistoryWriter(tmp_path, "faults") as second:
        first.drained("a")
        second.drained("b")
    with HistoryWriter(tmp_path, "load") as again:
        again.drained("c")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "faults-00000.parquet", "load-00000.parquet", "load-00001.parquet",
    ]  # fmt: skip
    assert [row["queue"] for row in rows(tmp_path)] == ["b", "a", "c"]


def test_an_old_row_is_finished_when_the_next_one_comes(tmp_path: Path) -> None:
    history = HistoryWriter(tmp_path, seconds_per_file=0.05)
    history.drained("a")
    time.sleep(0.06)  # now the first row is old
    history.drained("b")
    assert [row["queue"] for row in rows(tmp_path)] == ["a", "b"]


def test_flush_makes_everything_readable_and_close_ends_it(tmp_path: Path) -> None:
    history = HistoryWriter(tmp_path)
    history.drained("a")
    history.flush()
    assert len(rows(tmp_path)) == 1
    history.close()
    history.close()
    with pytest.raises(ValueError, match="closed"):
        history.drained("b")


def test_a_name_that_readers_skip_is_refused(tmp_path: Path) -> None:
    for name in ("", ".hidden", "_hidden", "a/b"):
        with pytest.raises(ValueError, match="cannot be named"):
            HistoryWriter(tmp_path, name)


CRASHING = """
import sys
from pathlib import Path
from mirrormq.history import HistoryWriter
history = HistoryWriter(Path(sys.argv[1]), rows_per_group=8192, rows_per_file=16384)
number = 0
while True:
    history.attempted("q", 1, number, "a")
    number += 1
"""


def test_a_killed_writer_leaves_a_readable_history(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CRASHING, str(tmp_path)])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.parquet"))) < 3:
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    numbers = [row["number"] for row in rows(tmp_path)]
    assert len(numbers) >= 3 * 16384
    assert numbers == list(range(len(numbers)))


def test_clocks_with_one_offset_agree(tmp_path: Path) -> None:
    first = SteadyClock()
    second = SteadyClock(first.offset_ns)
    assert first() <= second() <= first()
    assert abs(first() - time.time_ns()) < 1_000_000_000
