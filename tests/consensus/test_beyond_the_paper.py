"""Additions of the thesis and of practice to the paper: pre-vote, check-quorum, transfer, pipelining."""

from __future__ import annotations

from copy import deepcopy

import pytest

from mirrormq.consensus import Busy, Consensus, ConsensusError, Message, NotLeader, RaftRole, RaftSettings
from mirrormq.consensus.raft_messages import Append
from tests.consensus.world import World


def others(world: World, *names: str) -> list[str]:
    return [name for name in world.names if name not in names]


def test_a_node_that_was_cut_off_comes_back_without_disturbing_anyone() -> None:
    world = World("ABC")
    leader = world.leader()
    lonely = others(world, leader)[0]
    world.partition(lonely, "".join(others(world, lonely)), notify=False)
    world.run(200)
    term = world[leader].term
    assert world[lonely].term == term
    world.group = {}
    world.run(60)
    assert world.leaders() == [leader]
    assert world[leader].term == term
    assert world[lonely].leader == leader


def test_a_node_with_a_live_leader_refuses_to_elect_another() -> None:
    world = World("ABC")
    leader = world.leader()
    eager = others(world, leader)[0]
    world[eager].state.elections.campaign()
    world.pump(world.nodes[eager])
    world.round()
    assert world[eager].role is RaftRole.CANDIDATE
    assert leader in world.leaders()


def test_a_candidate_of_a_higher_term_is_taken_back_in() -> None:
    """The higher term makes the leader stand again, once."""
    world = World("ABC")
    leader = world.leader()
    eager = others(world, leader)[0]
    world[eager].state.elections.campaign()
    world.pump(world.nodes[eager])
    assert world[world.leader()].term >= 2
    world.settle()


def test_a_leader_without_a_quorum_of_answers_steps_down() -> None:
    world = World("ABC")
    leader = world.leader()
    world.partition(leader, notify=False)
    world.run(2 * world.settings.election_ticks)
    assert world[leader].role is not RaftRole.LEADER
    with pytest.raises(NotLeader):
        world[leader].propose(b"")


def test_leadership_is_handed_over_within_a_few_rounds() -> None:
    world = World("ABC")
    leader = world.leader()
    world.write(leader)
    successor = others(world, leader)[0]
    world[leader].transfer_leadership(successor)
    with pytest.raises(Busy):
        world[leader].propose(b"")
    world.pump(world.nodes[leader])
    world.until(lambda: world.leaders() == [successor], 5)
    world.settle()


def test_a_handover_to_a_dead_node_is_given_up() -> None:
    world = World("ABC")
    leader = world.leader()
    successor = others(world, leader)[0]
    world.crash(successor)
    world.propose(leader)
    world[leader].transfer_leadership(successor)
    world.run(world.settings.election_ticks + 1)
    assert world.leaders() == [leader]
    assert world.propose(leader)
    with pytest.raises(ValueError, match="not another voter"):
        world[leader].transfer_leadership(leader)


def test_only_the_leader_hands_over_or_changes_members() -> None:
    world = World("ABC")
    leader = world.leader()
    follower = others(world, leader)[0]
    for act in (
        lambda: world[follower].transfer_leadership("A"),
        lambda: world[follower].propose_members(add="Z"),
    ):
        with pytest.raises(NotLeader) as refusal:
            act()
        assert refusal.value.leader == leader


def test_messages_are_bounded_in_bytes_and_in_number() -> None:
    settings = RaftSettings(append_bytes_max=500, inflight_max=3)
    world = World("AB", settings=settings)
    leader = world.leader()
    follower = others(world, leader)[0]
    seen: list[Append] = []

    def swallow(sender: str, to: str, message: Message) -> bool:
        if isinstance(message, Append) and message.entries:
            seen.append(message)
            return True
        return False

    world.write(leader)
    world.settle()
    world.drop = swallow
    for _ in range(50):
        world.once.proposed((leader, world[leader].propose(b"z" * 100)))
    world.pump(world.nodes[leader])
    world._mail, mail = [], world._mail
    for _, sender, to, data in mail:
        world._deliver(sender, to, data)
    assert len(seen) == settings.inflight_max
    assert all(sum(entry.size_bytes for entry in message.entries) <= 500 for message in seen)
    assert all(len(message.entries) > 1 for message in seen)
    world.drop = lambda sender, to, message: False
    world.settle()
    assert len(world.nodes[follower].machine) == 51


def test_ready_and_advance_alternate() -> None:
    core: Consensus = World("A")["A"]
    with pytest.raises(ConsensusError):
        core.advance()
    core.ready()
    with pytest.raises(ConsensusError):
        core.ready()


def test_a_node_whose_files_were_replaced_by_an_older_copy_gets_the_rest_again() -> None:
    world = World("ABC")
    leader = world.leader()
    restored = others(world, leader)[0]
    world.write(leader)
    world.settle()
    copied = deepcopy(world.nodes[restored].disk)
    world.write(leader)
    world.settle()
    world.crash(restored)
    world.tell_reachable()
    world.run(10)
    world.nodes[restored].disk = copied
    world.kept.reset(restored)
    world.restart(restored)
    world.tell_reachable()
    world.settle()
    assert world.leaders() == [leader]
