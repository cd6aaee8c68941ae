"""Runs that once went wrong, each with a sentence on what it was. They go well, and stay so."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.simulator.scenario import read, write
from mirrormq.simulator.seeds import options_of
from mirrormq.simulator.shrinking import outcome

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_kept_run_passes(path: Path) -> None:
    sentence, options = read(path.read_text())
    assert sentence.endswith("."), "it says what went wrong"
    world, wrong, _ = outcome(options)
    assert not wrong
    assert world.history.confirmed, "something was at stake"


def test_a_run_that_is_written_down_is_the_same_run() -> None:
    drawn = options_of(5)
    kept = read("What went wrong.\n\n" + write(drawn))[1]
    assert outcome(kept).world.history.delivered == outcome(drawn).world.history.delivered
