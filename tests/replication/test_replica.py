"""Guarantees G1, G2, G3 and G6 for one queue with crashes, cuts and promotions.

Confirmed messages survive, and returning mirrors catch up to the last message while the queue is in use.
"""

from __future__ import annotations

import os

import pytest

from mirrormq.metadata.ring_view import View
from mirrormq.replication import replica
from mirrormq.replication.mirror_sync import MirrorSynchroniser
from mirrormq.replication.promotion import PromotionRules
from mirrormq.replication.ring_messages import ReplicaMessage
from tests.replication.world import World

SEEDS = int(os.environ.get("SEEDS", "200"))


def run(seed: int, steps: int = 400, kind: type[World] = World) -> World:
    world = kind(seed)
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


class SkipsTheDisk(World):
    """Nodes report operations as durable that are not on disk."""

    syncs = False


class PromotesWithHoles(World):
    """An unsynchronised mirror may become master."""

    rules = PromotionRules(on_failure_always=True)


class NeverSends(MirrorSynchroniser):
    """A returning mirror counts as synchronised without receiving anything."""

    def batches(self, now_ms: int) -> list[tuple[str, ReplicaMessage]]:
        for session in self.sessions.values():
            session.missing.remove(0, 1 << 62)
        return super().batches(now_ms)


class OneStep(MirrorSynchroniser):
    """A mirror that has caught up may be promoted at once, before confirms have waited for it."""

    def proposal(self, now_ms: int, *, looking: bool) -> View | None:
        view = super().proposal(now_ms, looking=looking)
        return view and view._replace(in_sync=view.in_sync | view.joining, joining=frozenset())


class JoinsInOneStep(World):
    """Messages confirmed just before a mirror joins may be lost with the other members."""

    service_class = OneStep


class TakesMirrorsAtTheirWord(World):
    """Mirrors join without their older messages."""

    service_class = NeverSends


@pytest.mark.parametrize("mutant", [SkipsTheDisk, PromotesWithHoles, JoinsInOneStep, TakesMirrorsAtTheirWord])
def test_the_checkers_catch_a_world_that_breaks_a_rule(
    mutant: type[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "MirrorSynchroniser", mutant.service_class)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(500):
            run(seed, kind=mutant)


@pytest.mark.parametrize("seed", [1, 18, 26, 322, 332, 728, 898, 1487, 1803, 2262, 2888, 7931])
def test_seeds_that_once_failed(seed: int) -> None:
    """Each seed found a bug: stale batches, early joins, an unknown base, a lost sync generation."""
    run(seed)
