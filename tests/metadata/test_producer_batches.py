"""Announced batches in the metadata: the place of a digest in the record is its epoch."""

from __future__ import annotations

import pytest

from mirrormq import limits
from mirrormq.metadata import command_versions, records
from mirrormq.metadata import commands as c
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


def test_too_many_contents_of_one_batch_change_nothing(state: MetadataState) -> None:
    """The first contents would be published a second time if a new record replaced this one."""
    for number in range(range_limits.PRODUCER_EPOCHS_MAX):
        begin(state, 1, str(number))
    full = begin(state, 1, "one more", "g2")
    assert (full.generation, len(full.digests)) == ("g1", range_limits.PRODUCER_EPOCHS_MAX)
    assert begin(state, 1, "0", "g3", at_ms=9).digests == full.digests, "a known one is still known"
    later = begin(state, 2, "one more", "g4")
    assert (later.digests, later.generation) == (("one more",), "g1")


@pytest.fixture
def full(state: MetadataState) -> set[str]:
    """Names of as many producers as a vhost may have, one used each millisecond."""
    names = [f"w/{number}" for number in range(range_limits.PRODUCERS_PER_VHOST_MAX)]
    for number, name in enumerate(names):
        begin(state, 1, "a", name=name, at_ms=number)
    return set(names)


def remembered(state: MetadataState) -> set[str]:
    return {name for _, name in state.producers}


def announce(state: MetadataState, name: str, at_ms: int) -> bool:
    state.apply(c.BeginBatch(records.Producer("/", name, "guest", "g9", 1, ("a",), at_ms)))
    return ("/", name) in state.producers


def test_only_idle_producers_make_room(state: MetadataState, full: set[str]) -> None:
    """A producer that is forgotten while its batch may be repeated publishes it twice."""
    begin(state, 2, "a", name="w/0", at_ms=50)
    assert not announce(state, "new", limits.PRODUCER_IDLE_MS)
    assert remembered(state) == full
    assert announce(state, "new", limits.PRODUCER_IDLE_MS + 1)
    assert full - remembered(state) == {"w/1"}, "w/2 was used a millisecond later"
    many = range_limits.PRODUCERS_PER_VHOST_MAX // 16
    assert announce(state, "newer", limits.PRODUCER_IDLE_MS + 2 * many)
    assert full - remembered(state) == {f"w/{number}" for number in range(many + 1)}, "a sixteenth at once"


def test_producers_of_a_complete_write_make_room_first(state: MetadataState, full: set[str]) -> None:
    for name in ("ended/0", "ended/1"):
        del state.producers["/", f"w/{name[-1]}"]
        begin(state, 1, "a", name=name, at_ms=50)
    state.apply(c.EndWrite("/", "ended", "mallory"))
    assert not announce(state, "new", 60), "another user ends nothing"
    state.apply(c.EndWrite("/", "ende", "guest"))
    assert not announce(state, "new", 60), "another write"
    state.apply(c.EndWrite("/", "ended", "guest"))
    assert begin(state, 1, "a", "g2", name="ended/0", at_ms=55).generation == "g1", "a task that runs twice"
    state.apply(c.EndWrite("/", "ended", "guest"))
    assert announce(state, "new", 60)
    assert remembered(state) == full - {"w/0", "w/1"} | {"new"}


def test_a_member_of_an_older_version_decides_the_rule(state: MetadataState, full: set[str]) -> None:
    """An older member forgets the least recently used producers. If others do not, the metadata differs."""
    state.apply(c.PutNode(records.Node("old@host", incarnation=1, running=True)))
    assert announce(state, "new", 60)
    many = range_limits.PRODUCERS_PER_VHOST_MAX // 16
    assert full - remembered(state) == {f"w/{number}" for number in range(many)}
    for number in range(range_limits.PRODUCER_EPOCHS_MAX + 1):
        begin(state, 5, str(number), f"g{number}", name="w/9999")
    assert state.producers["/", "w/9999"].digests == (str(range_limits.PRODUCER_EPOCHS_MAX),)
    assert not command_versions.knows(state, c.EndWrite)


def test_batches_are_in_snapshots_and_go_with_their_vhost(state: MetadataState) -> None:
    begin(state, 3, "a")
    assert MetadataState.from_snapshot(state.snapshot()).producers == state.producers
    state.apply(c.DeleteVhost("/"))
    assert not state.producers
