"""G1, G2, G3, G6 for one queue: what was confirmed survives crashes, cuts and promotions, and mirrors
that come back catch up to the last message while the queue goes on."""

from __future__ import annotations

import os

import pytest

from tests.replication.world import World

SEEDS = int(os.environ.get("SEEDS", "200"))


def run(seed: int, steps: int = 400) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.settle()
    return world


@pytest.mark.parametrize("block", range(10))
def test_nothing_confirmed_is_lost_and_every_mirror_equals_its_master(block: int) -> None:
    confirmed = epochs = 0
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        try:
            world = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        confirmed += len(world.confirmed)
        epochs += world.view.epoch
    assert confirmed > 0
    assert epochs > SEEDS // 10, "masters must have changed"
