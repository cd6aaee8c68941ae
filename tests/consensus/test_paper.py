"""Raft paper, claim by claim. Each test names the section; the checkers of figure 3 watch."""

from __future__ import annotations

import itertools

import pytest

from mirrormq.consensus import Consensus, Majority, RaftRole
from mirrormq.consensus.quorum import agreed_index, is_quorum
from mirrormq.consensus.raft_messages import Append, HardState, PreVote, Vote, VoteReply
from tests.consensus.figure8 import figure_8
from tests.consensus.world import Weather, World


def others(world: World, *names: str) -> list[str]:
    return [name for name in world.names if name not in names]


def test_5_1_a_stale_leader_becomes_a_follower_at_a_higher_term() -> None:
    world = World("ABC")
    old = world.leader()
    rest = others(world, old)
    world.partition(old, "".join(rest), notify=False)
    world.until(lambda: set(world.leaders()) & set(rest))
    world.group = {}
    world.leader()
    assert world[old].role is RaftRole.FOLLOWER


def test_5_1_a_message_of_an_older_term_is_refused_with_the_newer_term() -> None:
    world = World("ABC")
    leader = world.leader()
    follower = others(world, leader)[0]
    core = world[follower]
    before = core.state.log.last
    core.step("Z", Append(0, before, *(core.state.log.writer(before) or (0, 0)), (), 99, None))
    [(to, reply)] = core.ready().messages
    assert (to, reply.term, reply.accepted) == ("Z", core.term, False)  # type: ignore[union-attr]
    assert core.leader == leader


def test_5_2_followers_stay_followers_while_a_leader_sends() -> None:
    world = World("ABCDE")
    leader = world.leader()
    term = world[leader].term
    world.run(200)
    assert world.leaders() == [leader]
    assert world[leader].term == term


def test_5_2_a_candidate_with_votes_of_a_majority_leads_and_says_so() -> None:
    world = World("ABC")
    world["A"].campaign()
    world.pump(world.nodes["A"])
    world.until(lambda: world.leaders() == ["A"] and world["B"].leader == world["C"].leader == "A", 10)


def test_5_2_a_node_votes_once_in_a_term_also_across_a_crash() -> None:
    world = World("ABC")
    history = world["A"].state.log.history()
    assert vote(world, "C", "A", Vote(7, history, False))
    assert not vote(world, "C", "B", Vote(7, history, False))
    world.crash("C")
    world.restart("C")
    assert not vote(world, "C", "B", Vote(7, history, False))
    assert vote(world, "C", "A", Vote(7, history, False))


def vote(world: World, voter: str, candidate: str, request: Vote | PreVote) -> bool:
    core = world[voter]
    core.step(candidate, request)
    ready = core.ready()
    world.nodes[voter].disk.save(ready)
    core.advance()
    [reply] = [message for to, message in ready.messages if isinstance(message, VoteReply)]
    return reply.granted


def test_5_2_split_votes_end_because_patience_is_random() -> None:
    for seed in range(10):
        world = World("ABCD", seed=seed)
        for name in world.names:
            world[name].state.elections.campaign()
            world.pump(world.nodes[name])
        world.leader()


def test_5_3_committed_entries_reach_every_node_in_one_order() -> None:
    world = World("ABC", weather=Weather(loss=10, doubling=10, delay=3))
    world.until(world.leaders)
    for name in "ABCABCABC":
        world.write(name)
    world.settle()
    assert len(world.nodes["A"].machine) == 9


@pytest.mark.parametrize("extra", range(5))
def test_5_3_a_leader_makes_any_log_like_its_own(extra: int) -> None:
    """Figure 7: followers that miss entries, that have too many, and both."""
    world = World("ABC", seed=extra)
    old = world.leader()
    world.write(old)
    rest = others(world, old)
    world.partition(old, "".join(rest), notify=False)
    for _ in range(extra):
        world.propose(old)
    world.until(lambda: set(world.leaders()) & set(rest))
    for _ in range(3):
        world.write(rest[0])
    world.group = {}
    world.settle()


def test_5_4_1_a_candidate_that_lacks_committed_entries_gets_no_vote() -> None:
    world = World("ABC")
    leader = world.leader()
    late, fresh = others(world, leader)
    world.partition(late, leader + fresh, notify=False)
    old = world[late].state.log.history()
    world.write(leader)
    world.settle(leader, fresh)
    world.crash(leader)
    world.run(40)
    assert not vote(world, fresh, late, Vote(world[fresh].term + 1, old, True))
    world.group = {}
    world.until(lambda: fresh in world.leaders())


def test_5_4_2_entries_of_earlier_terms_are_not_committed_by_counting() -> None:
    figure_8(Consensus)


def test_5_5_nodes_may_crash_in_the_middle_of_anything() -> None:
    world = World("ABC", seed=5)
    world.crash_chance = 30
    made = []
    for number in range(300):
        for name in world.names:
            if world.nodes[name].core is None and number % 7 == 0:
                world.restart(name)
        name = world.names[number % 3]
        if world.nodes[name].core is not None and (key := world.propose(name)) is not None:
            made.append(key)
        world.round()
    world.crash_chance = 0
    for name in world.names:
        if world.nodes[name].core is None:
            world.restart(name)
    world.settle()
    assert len(made) > 20
    assert len(world.nodes["A"].machine) > len(made) // 3


def test_5_6_without_a_majority_nothing_is_committed() -> None:
    world = World("ABCDE")
    leader = world.leader()
    world.partition(leader + others(world, leader)[0])
    commit = world[leader].commit_index
    world.propose(leader)
    world.run(60)
    assert world[leader].commit_index == commit
    assert world[leader].role is not RaftRole.LEADER


def test_6_majorities_of_neighbouring_memberships_always_meet() -> None:
    """All memberships of up to five voters, and all ways to add one more."""
    names = "ABCDEF"
    for size in range(1, 6):
        before, after = frozenset(names[:size]), frozenset(names[: size + 1])
        for one in subsets(before):
            for other in subsets(after):
                if is_quorum(one, before) and is_quorum(other, after):
                    assert one & other


def subsets(names: frozenset[str]) -> list[frozenset[str]]:
    return [
        frozenset(some) for n in range(len(names) + 1) for some in itertools.combinations(sorted(names), n)
    ]


def test_8_a_new_leader_commits_what_its_predecessor_left_by_an_entry_of_its_own() -> None:
    world = World("ABC")
    leader = world.leader()
    key = world.propose(leader)
    world.round()
    world.crash(leader)
    rest = others(world, leader)
    world.until(lambda: all(key in world.nodes[name].machine for name in rest))


def test_quorums_are_strict_majorities() -> None:
    voters = frozenset("ABCD")
    assert not is_quorum("AB", voters)
    assert is_quorum("ABC", voters)
    assert Majority().electorate(voters, frozenset("A"), "A") == voters
    assert agreed_index({"A": 9, "B": 7, "C": 5, "D": 1}, voters) == 5
    assert agreed_index({"A": 9, "B": 7, "C": 5}, frozenset("ABC")) == 7


def test_hard_state_is_persisted_before_a_vote_is_counted() -> None:
    """A single node elects itself only when its vote is on disk."""
    world = World("A")
    core = world["A"]
    core.campaign()
    ready = core.ready()
    assert (core.role, core.commit_index) == (RaftRole.CANDIDATE, 0)
    assert ready.must_sync
    assert ready.hard_state == HardState(1, "A", 1, 0, starts=core.durable_state.starts)
    core.advance()
    assert (core.role, core.commit_index) == (RaftRole.LEADER, 0)
