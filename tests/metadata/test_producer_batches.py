"""Announced batches in the metadata: the place of a digest in the record is its epoch."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import records
from mirrormq.metadata.state import MetadataState
from mirrormq.ranges import range_limits


@pytest.fixture
def state() -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(records.Vhost("/")))
    return state


def begin(
    state: MetadataState, batch: int, digest: str, generation: str = "g1", name: str = "w/0", at_ms: int = 1
) -> records.Producer:
    state.apply(c.BeginBatch(records.Producer("/", name, "guest", generation, batch, (digest,), at_ms)))
    return state.producers["/", name]


def test_other_contents_of_a_batch_are_another_epoch(state: MetadataState) -> None:
    assert begin(state, 3, "a").digests == ("a",)
    assert begin(state, 3, "b", "g2").digests == ("a", "b")
    again = begin(state, 3, "a", "g3", at_ms=9)
    assert (again.digests, again.generation, again.used_ms) == (("a", "b"), "g1", 9)
    later = begin(state, 4, "b", "g4")
    assert (later.digests, later.generation) == (("b",), "g1")
    assert begin(state, 3, "c").batch == 4, "an older batch changes nothing"


def test_another_user_changes_nothing(state: MetadataState) -> None:
    before = begin(state, 3, "a")
    state.apply(c.BeginBatch(records.Producer("/", "w/0", "mallory", "g2", 4, ("b",), 5)))
    assert state.producers["/", "w/0"] == before


def test_too_many_contents_of_one_batch_begin_a_generation(state: MetadataState) -> None:
    for number in range(range_limits.PRODUCER_EPOCHS_MAX):
        begin(state, 1, str(number))
    found = begin(state, 1, "one more", "g2")
    assert (found.generation, found.digests) == ("g2", ("one more",))


def test_the_least_recently_used_make_room(state: MetadataState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_limits, "PRODUCERS_PER_VHOST_MAX", 32)
    for number in range(32):
        begin(state, 1, "a", name=f"w/{number}", at_ms=number)
    begin(state, 2, "a", name="w/0", at_ms=50)
    begin(state, 1, "a", name="new", at_ms=60)
    gone = {f"w/{number}" for number in range(32)} - {name for _, name in state.producers}
    assert gone == {"w/1", "w/2"}


def test_batches_are_in_snapshots_and_go_with_their_vhost(state: MetadataState) -> None:
    begin(state, 3, "a")
    assert MetadataState.from_snapshot(state.snapshot()).producers == state.producers
    state.apply(c.DeleteVhost("/"))
    assert not state.producers
