"""Fork index: recorded when a partition starts, compared with the winner's metadata when a side has lost."""

from __future__ import annotations

import random

import msgspec
import pytest

from mirrormq.cluster.fork_index import (
    NOT_FORKED,
    ForkIndex,
    ForkIndexes,
    LostFork,
    collects,
    counts_on,
    first_unshared,
)
from mirrormq.metadata.copy_records import FormerMember
from mirrormq.metadata.log_indexes import LogIndexes, decided_at
from mirrormq.metadata.records import Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.simulated_disk import SimulatedDisk

COMMON = 20
SHARED = LogIndexes(5, 10, 10, 5)
RECORDED = ForkIndex(100, 10)


def ring(
    members: str, indexes: LogIndexes = SHARED, *, queue_id: int = 7, in_sync: str = "", waits_for: str = "",
    epoch: int = 2, incarnation: int = 1,
) -> Queue:  # fmt: skip
    incarnations = frozenset((member, incarnation) for member in members)
    view = View(epoch, 5, tuple(members), frozenset(in_sync or members), incarnations=incarnations)
    return Queue("/", "q", queue_id, node=members[0], view=view, waits_for=tuple(waits_for), indexes=indexes)


def lost(mine: Queue, theirs: Queue | None, companions: str = "") -> LostFork:
    states = MetadataState(), MetadataState()
    for state, queue in zip(states, (mine, theirs), strict=True):
        if queue is not None:
            state.store(queue)
    return LostFork(*states, COMMON, tuple(companions), 0)


def first(mine: Queue, theirs: Queue | None, recorded: ForkIndex | None = RECORDED, me: str = "a") -> int:
    return first_unshared(me, mine, lost(mine, theirs), recorded)


# -- on disk ---------------------------------------------------------------------------------------


def opened(disk: SimulatedDisk) -> ForkIndexes:
    indexes = ForkIndexes(EntryLog(disk, "apart"))
    indexes.open()
    return indexes


def test_the_first_fork_indexes_stay_until_all_nodes_are_back() -> None:
    indexes = opened(SimulatedDisk(random.Random(1).randrange))
    indexes.begin({7: RECORDED})
    indexes.begin({7: ForkIndex(200, 12)})
    assert indexes.find(7) == RECORDED
    indexes.end()
    assert indexes.find(7) is None
    indexes.begin({7: ForkIndex(200, 12)})
    assert indexes.find(7) == ForkIndex(200, 12)


def test_fork_indexes_survive_a_power_failure() -> None:
    disk = SimulatedDisk(random.Random(1).randrange)
    opened(disk).begin({7: RECORDED})
    disk.crash()
    indexes = opened(disk)
    assert indexes.find(7) == RECORDED and indexes.find(8) is None


def test_a_loser_drops_the_fork_indexes_that_it_measured_in_its_own_history() -> None:
    disk = SimulatedDisk(random.Random(1).randrange)
    indexes = opened(disk)
    indexes.begin({7: ForkIndex(100, COMMON), 8: ForkIndex(100, COMMON + 1)})
    indexes.drop_after(COMMON)
    for seen in (indexes, opened(disk)):
        assert seen.find(7) == ForkIndex(100, COMMON)
        assert seen.find(8) is None, "the winner's log may have another view there"


def test_divergence_marks_of_an_older_program_share_nothing() -> None:
    disk = SimulatedDisk(random.Random(1).randrange)
    log = EntryLog(disk, "apart")
    list(log.open())
    log.append(msgspec.msgpack.encode([50, {7: [100, [["b", 1]]]}]), sync=True)
    indexes = opened(disk)
    assert indexes.begun and indexes.find(7) is None


# -- what both sides share -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        (SHARED, 100),
        (LogIndexes(5, 25, 25, 5), 100),  # the winner promoted synchronised mirrors that lived
        (LogIndexes(5, 25, 25, 25), 0),  # its master has a copy from a disk, or one with holes
        (LogIndexes(5, 15, 15, 15), 0),  # so it had before the sides parted, and after the fork index
        (LogIndexes(), 0),  # it did not record that
    ],
)
def test_the_messages_before_the_fork_index_are_shared_if_the_winner_had_no_gap_since(
    indexes: LogIndexes, expected: int
) -> None:
    assert first(ring("ab"), ring("bc", indexes)) == expected


def test_a_fork_index_counts_only_if_the_winner_knows_the_view_it_was_measured_in() -> None:
    assert first(ring("ab"), ring("bc"), ForkIndex(100, COMMON)) == 100
    assert first(ring("ab"), ring("bc"), ForkIndex(100, COMMON + 1)) == 0
    assert first(ring("ab"), ring("bc"), None) == 0, "it was lost with the power"
    assert first(ring("ab"), None, ForkIndex(100, COMMON + 1)) == 0


def test_a_queue_that_waits_for_nodes_has_no_copy_to_rely_on() -> None:
    assert first(ring("ab"), ring("bc", waits_for="c")) == 0


def test_a_queue_that_the_winner_has_deleted_is_shared_up_to_the_fork_index() -> None:
    assert first(ring("ab"), None) == 100
    assert first(ring("ab"), ring("c", decided_at(25), queue_id=9)) == 100, "and declared anew"


def test_a_queue_declared_on_the_losing_side_only_shares_nothing_with_its_namesake() -> None:
    mine = ring("a", decided_at(COMMON + 1))
    for theirs in (None, ring("a", decided_at(25)), ring("ba", decided_at(25), waits_for="ba")):
        assert first(mine, theirs) == 0


def test_a_queue_that_only_the_loser_holds_has_not_forked() -> None:
    assert first(ring("a"), ring("a")) == NOT_FORKED
    assert first(ring("b", epoch=3), ring("a")) == NOT_FORKED
    assert first(ring("a"), ring("b", LogIndexes(5, 25, 25, 25))) == 0, "moved by force"


def test_the_only_member_sets_aside_its_later_epochs_if_the_winner_may_promote_a_former_member() -> None:
    own_epoch = ring("a", LogIndexes(5, 25, 25, 25), epoch=3)
    theirs = msgspec.structs.replace(ring("a"), former=(FormerMember("b", 1, 5),), waits_for=("a",))
    assert first(own_epoch, theirs) == first_sequence(3)
    assert first(own_epoch, msgspec.structs.replace(theirs, former=())) == NOT_FORKED


# -- copies that the winner counts on ----------------------------------------------------------------


def test_the_winner_counts_on_members_of_a_queue_that_is_down_in_an_epoch_that_both_sides_know() -> None:
    down = ring("ab", waits_for="ab")
    for me in "ab":
        assert counts_on(me, ring("ab"), down, COMMON)
    assert not counts_on("a", ring("ab"), ring("ab"), COMMON), "it has a master there"
    parted = LogIndexes(5, 25, 25, 5)
    assert counts_on("a", ring("ab", parted, epoch=3), down, COMMON)
    assert not counts_on("a", ring("ab"), ring("ab", parted, waits_for="ab"), COMMON), "another master there"
    assert not counts_on("a", ring("ab", LogIndexes(5, 25, 25, 25)), down, COMMON), "its copy may have gaps"
    assert not counts_on("a", ring("ab"), ring("cd", waits_for="cd"), COMMON)


def test_epochs_with_one_number_are_two_epochs_if_both_sides_began_them() -> None:
    mine, theirs = ring("b", LogIndexes(5, 24, 24, 5), epoch=3), ring("ba", LogIndexes(5, 25, 25, 5), epoch=3)
    assert not counts_on("a", mine, msgspec.structs.replace(theirs, waits_for=("b",)), COMMON)


def test_the_winner_counts_on_former_members_of_the_epoch_that_both_sides_are_in() -> None:
    left = ring("b")
    assert counts_on("a", left, ring("ba"), COMMON), "the disk of b may be bad"
    assert not counts_on("a", left, ring("bc"), COMMON), "the winner has c"
    former = msgspec.structs.replace(ring("b"), former=(FormerMember("a", 1, 5),))
    assert counts_on("a", left, former, COMMON)
    parted = ring("b", LogIndexes(5, 25, 25, 25), epoch=3)
    assert not counts_on("a", parted, former, COMMON)


# -- who sets aside ----------------------------------------------------------------------------------


def test_the_master_sets_messages_aside_for_its_side_or_the_first_synchronised_mirror() -> None:
    mine, theirs = ring("ab"), ring("cd")
    assert collects("a", mine, lost(mine, theirs, "b"))
    assert not collects("b", mine, lost(mine, theirs, "a")), "the master does"
    assert collects("b", mine, lost(mine, theirs)), "the master is gone"
    holes = ring("ab", in_sync="a")
    assert not collects("b", holes, lost(holes, None)), "and b has holes"


def test_a_node_that_left_the_ring_sets_aside_if_it_sees_no_member_or_the_winner_counts_on_it() -> None:
    handed_on = ring("b", LogIndexes(5, 25, 25, 5), epoch=3)
    assert not collects("a", handed_on, lost(handed_on, ring("ac"), "b")), "b does"
    assert collects("a", handed_on, lost(handed_on, ring("ac")))
    former = msgspec.structs.replace(handed_on, former=(FormerMember("a", 1, 5),))
    assert collects("a", former, lost(former, ring("ac", waits_for="ac"), "b"))


def test_a_node_that_left_the_ring_sets_aside_during_an_upgrade() -> None:
    """The winner may count on its copy, which nobody can tell, and b may have lost its journal."""
    former = (FormerMember("a", 1, 5),)
    mine = msgspec.structs.replace(ring("b", LogIndexes(), epoch=3), former=former)
    begun_later = ring("ab", decided_at(25), waits_for="ab")
    assert first(mine, begun_later) == 0
    assert collects("a", mine, lost(mine, begun_later, "b"))


def test_exclusive_queues_end_with_their_clients() -> None:
    mine = msgspec.structs.replace(ring("a"), exclusive=True)
    assert not collects("a", mine, lost(mine, None))
