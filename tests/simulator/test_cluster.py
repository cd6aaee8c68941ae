"""The wired system, a few seeds of it: `make sim` plays as many as there is time for."""

from __future__ import annotations

import pytest

from mirrormq.cluster.partitions import AUTO, AUTOHEAL, IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY
from mirrormq.simulator.seeds import options_of
from mirrormq.simulator.shrinking import outcome


@pytest.mark.parametrize("seed", range(1, 25))
def test_nothing_goes_wrong(seed: int) -> None:
    world, wrong, _ = outcome(options_of(seed))
    assert not wrong
    assert world.history.confirmed


def test_seeds_stand_for_everything() -> None:
    drawn = [options_of(seed) for seed in range(300)]
    assert {options.nodes for options in drawn} == {2, 3, 5}
    assert {options.mode for options in drawn} == {AUTO, AUTOHEAL, IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY}
    assert {queue[0] for options in drawn for queue in options.queues} == set("dmtuv")


def test_what_is_given_is_not_drawn_and_changes_nothing_else() -> None:
    drawn, given = options_of(7), options_of(7, mode=IGNORE)
    assert given == drawn._replace(mode=IGNORE)


def test_a_seed_decides_everything() -> None:
    one, other = outcome(options_of(3)).world, outcome(options_of(3)).world
    assert one.history.delivered == other.history.delivered
    assert one.trace == other.trace and one.timeline.now_ms == other.timeline.now_ms
