"""Many histories of load and misfortune on three whole brokers (`storm`).

STORMS=500 pytest tests/mirrored/test_storms.py        for a longer look
"""

from __future__ import annotations

import os

import pytest

from mirrormq.replication import mirror_sync
from mirrormq.replication.replica import Replica
from mirrormq.replication.ring import Ring
from mirrormq.replication.ring_messages import SyncAck, SyncRequest
from tests.mirrored.storm import run

STORMS = int(os.environ.get("STORMS", "40"))


@pytest.mark.parametrize("block", range(10))
def test_nothing_confirmed_is_lost_and_nothing_is_kept_twice(block: int) -> None:
    confirmed = epochs = 0
    for seed in range(block * STORMS // 10, (block + 1) * STORMS // 10):
        try:
            storm = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        confirmed += len(storm.confirmed)
        epochs += storm.cluster.record("q").ring.epoch
    assert confirmed > 0
    assert epochs > STORMS // 10, "masters must have changed"


@pytest.mark.parametrize("seed", [20, 21, 23, 27, 63, 64, 119, 324, 334, 447, 524])
def test_seeds_that_once_failed(seed: int) -> None:
    """Each found a hole: a history that only numbers knew, a master that had begun again, an answer for what
    was not there, producers that a copy knew without their messages."""
    run(seed)


def confirms_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master does not wait for its mirrors."""
    settle = Ring.settle

    def mutant(ring: Ring) -> bool:
        settle(ring)
        ring.completed = ring.completed._replace(received=ring.received, durable=ring.durable)
        return True

    monkeypatch.setattr(Ring, "settle", mutant)


def compares_numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat a mirror with at most the master's number of operations as having equal ones."""
    monkeypatch.setattr("mirrormq.replication.ring.agreed", lambda mine, theirs: theirs[-1][1])


def forgets_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new master does not know what it has had of whom."""
    become = Replica._become_master

    def mutant(replica: Replica, *, complete: bool) -> None:
        become(replica, complete=False)

    monkeypatch.setattr(Replica, "_become_master", mutant)


def takes_batches_at_their_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror counts as complete while what it lacks is on its way."""
    joined = mirror_sync.MirrorSynchroniser.joined

    def mutant(self: mirror_sync.MirrorSynchroniser, sender: str, join: SyncRequest) -> object:
        answer = joined(self, sender, join)
        if sender in self.sessions:
            self.sessions[sender].missing.remove(0, 1 << 62)
            self.taken(sender, SyncAck(join.queue_id, join.epoch, join.attempt))
        return answer

    monkeypatch.setattr(mirror_sync.MirrorSynchroniser, "joined", mutant)


@pytest.mark.patches_core
@pytest.mark.parametrize(
    "mutate", [confirms_at_once, compares_numbers_only, forgets_producers, takes_batches_at_their_word]
)
def test_the_checkers_catch_a_ring_that_breaks_a_rule(
    mutate: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(mutate)
    mutate(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(120):
            run(seed)
