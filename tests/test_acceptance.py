"""The runner of the long trials: what it records, and that every trial can start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.acceptance import TRIALS, Trial, accept, read_table
from benchmarks.machine import revision, today
from tests.test_tidy import ROOT

WRITES = "import os; assert os.environ['SEEDS'] == '7'; open('SCRATCH/x', 'w')"
SHORT = (
    Trial("good", f'python -c "{WRITES}"', {"SEEDS": "7"}),
    Trial("bad", 'python -c "raise SystemExit(3)"'),
)


def results(table: Path) -> dict[str, str]:
    return {name: row[3] for name, row in read_table(table).items()}


def test_each_trial_is_recorded_with_date_revision_and_result(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    assert not accept(SHORT, [], table)
    assert results(table) == {"good": "passed", "bad": "failed (exit code 3)"}
    for row in read_table(table).values():
        assert row[1:3] == [today(), revision()]
        assert re.fullmatch(r"\d+\.\d", row[4])
    assert table.read_text().count("`SEEDS=7 python -c") == 1


def test_a_chosen_trial_leaves_the_rows_of_the_others(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    accept(SHORT, ["bad"], table)
    assert accept(SHORT, ["good"], table)
    assert results(table) == {"good": "passed", "bad": "failed (exit code 3)"}
    accept(SHORT[:1], [], table)
    assert results(table) == {"good": "passed"}


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_the_tests_of_a_trial_exist_and_read_its_variables(trial: Trial) -> None:
    paths = [ROOT / word for word in trial.command.split() if word.startswith("tests/")]
    assert all(path.exists() for path in paths)
    text = "".join(
        file.read_text() for path in paths for file in ([path] if path.is_file() else path.glob("*.py"))
    )
    assert all(f'"{name}"' in text for name in trial.variables)
