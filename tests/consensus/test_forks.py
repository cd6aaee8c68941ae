"""Forks: two sides of a partition that both continue are detected, kept apart, and healed only by a reset."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.consensus import Forked, Majority, RaftRole, RaftSettings, Reachable
from mirrormq.consensus.log_history import (
    NOTHING,
    LogComparison,
    LogHistory,
    LogRelation,
    TermRun,
    common_index,
    compare,
)
from tests.consensus.test_beyond_the_paper import others
from tests.consensus.world import World


def cluster(names: str, seed: int = 0) -> World:
    """Return nodes that have committed one entry."""
    world = World(names, rule=Reachable, seed=seed)
    world.write(world.leader())
    world.settle()
    return world


def forks(world: World, name: str) -> list[Forked]:
    return [fork for ready in world.nodes[name].ready_log for fork in ready.forks]


def test_of_two_nodes_one_goes_on_alone_and_the_other_catches_up() -> None:
    world = cluster("AB")
    world.crash("B")
    world.tell_reachable()
    for _ in range(5):
        world.write("A")
    assert not world["A"].whole
    world.restart("B")
    world.tell_reachable()
    world.until(lambda: world.equal() and world["A"].whole)
    assert not forks(world, "A") + forks(world, "B")


def test_a_leader_of_a_minority_seeks_a_majority_at_the_first_answer() -> None:
    world = World("ABC", rule=Reachable, settings=RaftSettings(election_ticks=240, stagger_ticks=3))
    world["A"].state.elections.start_pre_vote()
    world.pump(world.nodes["A"])
    world.until(world.leaders)
    world.partition("A", "B", "C")
    world.write("A")
    assert not world["A"].whole
    world.partition("AB", "C")
    world.until(lambda: world["A"].whole, 40)
    assert world.leaders()[0] == "A"


def test_without_a_report_of_the_detector_no_node_goes_on_alone() -> None:
    world = cluster("AB")
    world.crash("B")
    world.run(100)
    assert not world.leaders()


@pytest.mark.parametrize("seed", range(5))
def test_two_nodes_that_both_did_something_are_forked_until_one_is_reset(seed: int) -> None:
    world = cluster("AB", seed)
    common = world["A"].commit_index
    world.partition()
    mine, theirs = world.write("A"), world.write("B")
    world.round()
    world.heal()
    world.run(60)
    for name, peer in ("AB", "BA"):
        [fork] = forks(world, name)
        assert (fork.peer, fork.common) == (peer, common)
        assert fork.branch != fork.peer_branch
        assert world[name].role is RaftRole.LEADER
    assert theirs not in world.nodes["A"].machine
    assert mine not in world.nodes["B"].machine
    world.write("A")
    world.reset("B", "A")
    world.settle()
    assert mine in world.nodes["B"].machine
    assert theirs not in world.nodes["B"].machine
    world.until(lambda: not world["A"].forks)
    assert any("B" in ready.healed for ready in world.nodes["A"].ready_log)


def test_no_node_waits_a_whole_timeout_after_the_fork_has_healed() -> None:
    """A requested B's vote before either knew of the fork; then B returns to A's history."""
    world = World("AB", rule=Reachable, settings=RaftSettings(election_ticks=240, stagger_ticks=3))
    world["A"].state.elections.start_pre_vote()
    world.pump(world.nodes["A"])
    world.until(world.leaders)
    world.partition()
    world.write("A"), world.write("B")
    world.heal()
    world["A"].state.follow(world["A"].term + 1, None)
    world["A"].state.elections.start_pre_vote()
    world.until(lambda: forks(world, "A") and forks(world, "B"))
    assert world.leaders() == ["B"]
    world.reset("B", "A")
    world.until(lambda: world.leaders() == ["A"], 40)


@pytest.mark.parametrize("seed", range(5))
def test_of_three_nodes_the_lonely_one_is_forked_from_the_majority(seed: int) -> None:
    world = cluster("ABC", seed)
    lonely = "ABC"[seed % 3]
    rest = others(world, lonely)
    world.partition("".join(rest))
    mine, theirs = world.write(lonely), world.write(rest[0])
    world.heal()
    world.run(60)
    assert set(world[lonely].forks) == set(rest)
    assert set(world.leaders()) & set(rest)
    world.write(lonely)
    world.write(rest[1])
    world.reset(lonely, rest[0])
    world.settle()
    assert all(theirs in node.machine and mine not in node.machine for node in world.nodes.values())
    world.run(3 * world.settings.heartbeat_ticks)
    assert not any(world[name].forks for name in world.names), "those who follow know it as well"


def _two_leaders(world: World) -> bool:
    return len(world.leaders()) == 2


def test_a_side_that_did_nothing_follows_the_other_by_itself() -> None:
    """Both sides elect a leader and open a branch; only one writes."""
    for writer, idle in ("AB", "BA"):
        world = cluster("AB")
        world.partition()
        world.until(partial(_two_leaders, world))
        key = world.write(writer)
        world.heal()
        world.settle()
        assert key in world.nodes[idle].machine
        assert not forks(world, "A") + forks(world, "B")


def test_the_idle_side_follows_even_if_its_term_ran_ahead() -> None:
    world = cluster("AB")
    world.partition()
    world.write("A")
    for _ in range(4):
        world["B"].state.elections.campaign()
        world.pump(world.nodes["B"])
    assert world["B"].term > world["A"].term + 2
    world.heal()
    world.settle()
    assert not forks(world, "A") + forks(world, "B")


def test_two_sides_that_both_did_nothing_become_one() -> None:
    world = cluster("ABCD")
    world.partition("AB", "CD")
    world.until(lambda: len(world.leaders()) == 2)
    world.heal()
    world.until(lambda: world.equal() and world[world.leader()].whole)


def test_a_fork_survives_restarts_of_both_sides() -> None:
    world = cluster("AB")
    world.partition()
    world.write("A")
    world.write("B")
    for name in "AB":
        world.crash(name)
    for name in "AB":
        world.restart(name)
    world.heal()
    world.until(lambda: world["A"].forks and world["B"].forks)


def test_an_unwritten_majority_is_not_forked_by_an_uncommitted_tail() -> None:
    """Plain Raft under the other rule: an old leader's tail is dropped, and no fork is reported."""
    world = cluster("ABC")
    old = world.leader()
    rest = others(world, old)
    world.partition(old, "".join(rest), notify=False)
    world.propose(old)
    world.until(lambda: set(world.leaders()) & set(rest))
    world.write(rest[0])
    world.group = {}
    world.settle()
    assert not any(forks(world, name) for name in world.names)


def test_a_leader_needs_a_new_election_to_need_fewer() -> None:
    world = cluster("ABC")
    leader = world.leader()
    term, commit = world[leader].term, world[leader].commit_index
    world.partition(leader, notify=False)
    world.propose(leader)
    world.run(3)
    assert (world[leader].term, world[leader].commit_index) == (term, commit)
    world.notify(leader)
    assert world[leader].term > term
    assert world[leader].commit_index > commit
    assert not world[leader].whole


def test_two_clusters_never_take_each_other_for_a_part() -> None:
    ours, theirs = TermRun(0, 1, 0, True), TermRun(0, 2, 0, True)
    judged = compare(LogHistory((ours,), 3, 3), LogHistory((theirs,), 5, 5))
    assert (judged.verdict, judged.common) == (LogRelation.FORK, NOTHING)


def test_a_joining_node_lacks_everything_and_follows_anyone() -> None:
    empty = LogHistory((), NOTHING, NOTHING)
    assert compare(empty, LogHistory((TermRun(0, 1, 0, True),), 3, 3)).verdict is LogRelation.FOLLOW
    assert compare(LogHistory((TermRun(0, 1, 0, True),), 0, 0), empty).verdict is LogRelation.LEAD


def test_committed_entries_are_never_dropped_for_a_later_term_of_the_same_branch() -> None:
    """Only a disk that lost entries, unnoticed, elects a leader without them."""
    shared, later = TermRun(1, 7, 0, True), TermRun(2, 7, 5, True)
    mine, theirs = LogHistory((shared,), 6, 6, 3), LogHistory((shared, later), 9, 9, 3)
    assert compare(mine, theirs) == LogComparison(LogRelation.FOLLOW, 4)
    mine = msgspec.structs.replace(mine, committed=6)
    assert compare(mine, theirs) == LogComparison(LogRelation.LEAD, 4)
    assert compare(theirs, mine) == LogComparison(LogRelation.FOLLOW, 4)
    theirs = msgspec.structs.replace(theirs, committed=9)
    assert compare(mine, theirs) == compare(theirs, mine) == LogComparison(LogRelation.FORK, 4)


def test_reachable_names_every_node_while_a_majority_is_there() -> None:
    voters = frozenset("ABCDE")
    assert Reachable().electorate(voters, frozenset("ABC"), "A") == voters
    assert Reachable().electorate(voters, frozenset("B"), "A") == frozenset("AB")
    assert Reachable().electorate(voters, frozenset(), "A") == frozenset("A")
    assert Majority().electorate(voters, frozenset(), "A") == voters


@st.composite
def histories(draw: st.DrawFn) -> LogHistory:
    """Generate a log run by run from few writers, so that two logs often share some."""
    runs, first = [TermRun(0, 0, 0, True)], 0
    for _ in range(draw(st.integers(0, 4))):
        first += draw(st.integers(1, 3))
        term = runs[-1].term + draw(st.integers(1, 2))
        partial = draw(st.booleans())
        branch = draw(st.integers(1, 3)) * 100 + first if partial or not runs[-1].whole else runs[-1].branch
        runs.append(TermRun(term, branch, first, not partial))
    last = first + draw(st.integers(0, 3))
    worth = draw(st.integers(0, last))
    return LogHistory(tuple(runs), last, worth, draw(st.integers(NOTHING, worth)))


def writers(history: LogHistory) -> list[tuple[int, int]]:
    """Return the writer of each entry of a log."""
    ends = [run.first for run in history.runs[1:]] + [history.last + 1]
    return [run.writer for run, end in zip(history.runs, ends, strict=True) for _ in range(run.first, end)]


@given(histories(), histories())
def test_the_common_index_is_the_last_place_where_the_writers_agree(
    one: LogHistory, other: LogHistory
) -> None:
    pairs = list(zip(writers(one), writers(other), strict=False))
    agreeing = [index for index, (here, there) in enumerate(pairs) if here == there]
    assert common_index(one, other) == common_index(other, one) == max(agreeing, default=NOTHING)


@given(histories(), histories())
def test_both_sides_come_to_one_verdict(one: LogHistory, other: LogHistory) -> None:
    here, there = compare(one, other).verdict, compare(other, one).verdict
    if LogRelation.FORK in (here, there):
        assert here is there
    elif one.rank != other.rank:
        assert {here, there} == {LogRelation.FOLLOW, LogRelation.LEAD}
