"""`make hunt`: rows of the table, the end of a hunt, and failures."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import hunt
from benchmarks.machine import today
from mirrormq.simulator.seed_runs import GivenOptions, SeedResult, play, play_all
from mirrormq.simulator.seeds import options_of
from tests.test_tidy import ROOT

FIRST = 7


def result(seed: int, wrong: str = "") -> SeedResult:
    return SeedResult(options_of(seed), wrong, 10, 2, 1, 4)


def test_a_row_has_totals_and_the_seeds_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = hunt.Hunt(FIRST, GivenOptions(nodes=2, mode="autoheal"))
    hunt.hunt([result(7), result(8, "confirmed and lost"), result(9, "lost")], totals, lambda totals: None)
    table = tmp_path / "HUNT.md"
    for tried in ("abc", "def"):
        hunt.append(table, totals.row(tried))
    rows = [line for line in table.read_text().splitlines() if line.startswith("| ")]
    assert rows[0] == "| " + " | ".join(hunt.HEADINGS) + " |"
    assert rows[1] == f"| {today()} | abc | 7 | 3 | `--nodes 2 --mode autoheal` | 30 | 6 | 3 | 12 | 8 9 |"
    assert rows[2] == rows[1].replace("abc", "def")
    assert "seed 8: confirmed and lost" in capsys.readouterr().out


def test_ctrl_c_keeps_what_was_found() -> None:
    def interrupted() -> Iterator[SeedResult]:
        yield result(7)
        raise KeyboardInterrupt

    totals = hunt.Hunt(FIRST, GivenOptions())
    hunt.hunt(interrupted(), totals, lambda totals: None)
    assert totals.row("abc")[2:] == ["7", "1", "–", "10", "2", "1", "4", "none"]


def test_a_hunt_runs_consecutive_seeds_until_its_time_is_over() -> None:
    looks = iter([True, True, False])
    given = GivenOptions(nodes=2, seconds=1, faults=1)
    found = list(hunt.results(given, FIRST, 2, lambda: next(looks), batch_seeds=1))
    assert [played.options.seed for played in found] == [7, 8, 9, 10]
    assert found == [play(given, seed) for seed in range(7, 11)]


def test_disk_faults_are_counted_when_they_are_carried_out() -> None:
    """A drawn fault waits until the guarantee covers it, and may never happen."""
    some = GivenOptions(nodes=3, kinds="disk", faults=3)
    none = GivenOptions(nodes=3, kinds="partition", faults=3)
    assert sum(played.disk_faults for played in play_all(some, range(1, 4), 1)) > 0
    assert sum(played.disk_faults for played in play_all(none, range(1, 3), 1)) == 0


def test_results_of_several_processes_come_in_order() -> None:
    given = GivenOptions(nodes=2, seconds=1)
    found = play_all(given, range(1, 7), 3)
    assert [played.options.seed for played in found] == list(range(1, 7))


def test_the_program_appends_its_row_at_ctrl_c(tmp_path: Path) -> None:
    table = tmp_path / "HUNT.md"
    command = [sys.executable, "-m", "benchmarks.hunt", "--minutes", "60", "--table", str(table)]
    with subprocess.Popen(
        [*command, "--nodes", "2"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("hunting from seed ")
        process.send_signal(signal.SIGINT)
        text = process.stdout.read()
    assert process.returncode == 0, text
    assert "interrupted" in text
    assert table.read_text().splitlines()[-1].endswith("| none |")
