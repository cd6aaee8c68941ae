"""Membership: nodes join as learners, become voters when caught up, and leave, one change at a time."""

from __future__ import annotations

from functools import partial

import pytest

from mirrormq.consensus import ChangePending, Members, RaftRole
from tests.consensus.test_beyond_the_paper import others
from tests.consensus.world import World


def test_a_joining_node_listens_first_and_votes_when_it_has_caught_up() -> None:
    world = World("ABC")
    leader = world.leader()
    for _ in range(5):
        world.write(leader)
    world.join("D")
    world[leader].propose_members(add="D")
    world.pump(world.nodes[leader])
    world.until(lambda: "D" in world["D"].members.voters)
    world.settle()
    seen = [ready.members for ready in world.nodes[leader].ready_log if ready.members]
    assert seen == [Members(("A", "B", "C"), ("D",)), Members(("A", "B", "C", "D"))]


def test_a_learner_that_lags_neither_votes_nor_campaigns() -> None:
    world = World("ABC")
    leader = world.leader()
    world.join("D")
    world.partition("ABC", notify=False)
    world[leader].propose_members(add="D")
    world.pump(world.nodes[leader])
    world.run(80)
    assert world[leader].members.learners == ("D",)
    assert world["D"].role is RaftRole.FOLLOWER
    world.write(leader)


def test_changes_come_one_at_a_time() -> None:
    world = World("ABC")
    leader = world.leader()
    world[leader].propose_members(add="D")
    with pytest.raises(ChangePending):
        world[leader].propose_members(add="E")


def test_a_leader_must_commit_something_of_its_term_before_it_changes_members() -> None:
    world = World("ABC")
    world["A"].campaign()
    world.pump(world.nodes["A"])
    world.until(lambda: world.leaders() == ["A"], 5)
    world.partition("A", notify=False)
    with pytest.raises(ChangePending):
        world["A"].propose_members(remove="B")


def test_a_removed_node_does_not_count_any_more() -> None:
    world = World("ABC")
    leader = world.leader()
    gone, kept = others(world, leader)
    world[leader].propose_members(remove=gone)
    world.pump(world.nodes[leader])
    world.until(lambda: gone not in world[kept].members.everyone)
    world.crash(gone)
    world.write(kept)
    assert world[leader].members.voters == tuple(sorted((leader, kept)))


def test_a_removed_node_cannot_disturb_the_rest() -> None:
    world = World("ABC")
    leader = world.leader()
    gone, kept = others(world, leader)
    world.partition(leader + kept, notify=False)
    world[leader].propose_members(remove=gone)
    world.pump(world.nodes[leader])
    world.until(lambda: gone not in world[kept].members.everyone)
    world.group = {}
    term = world[leader].term
    world.run(100)
    assert (world[leader].role, world[leader].term) == (RaftRole.LEADER, term)


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    world = World("ABC")
    leader = world.leader()
    world[leader].propose_members(remove=leader)
    world.pump(world.nodes[leader])
    rest = others(world, leader)
    world.until(lambda: set(world.leaders()) & set(rest))
    assert world[leader].role is RaftRole.FOLLOWER
    world.write(rest[0])
    assert world[rest[0]].members.voters == tuple(rest)


def test_impossible_membership_changes_are_refused() -> None:
    world = World("A")
    world.leader()
    for wrong in ({"add": "A"}, {"remove": "B"}, {"remove": "A"}, {}, {"add": "B", "remove": "A"}):
        with pytest.raises(ValueError):
            world["A"].propose_members(**wrong)


def _votes(world: World, leader: str, name: str) -> bool:
    return name in world[leader].members.voters


def test_a_cluster_grows_from_one_to_five() -> None:
    world = World("A")
    leader = world.leader()
    for name in "BCDE":
        world.join(name)
        world.write(leader)
        world.until(lambda: world[leader].state.membership.allowed)
        world[leader].propose_members(add=name)
        world.pump(world.nodes[leader])
        world.until(partial(_votes, world, leader, name))
    world.settle()
    world.crash("A")
    world.crash("B")
    world.write("C")
