"""Failure detector reports take effect at once: leaders are replaced, step down, probe returned peers."""

from __future__ import annotations

import pytest

from mirrormq.consensus import Automatic, Majority, Message, RaftRole, RaftSettings, Reachable
from mirrormq.consensus.quorum import Names
from mirrormq.consensus.raft_messages import Append, Command
from tests.consensus.test_beyond_the_paper import others
from tests.consensus.world import World

ROUND_TRIPS = 5
"""Rounds of a pre-vote and an election."""


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("names", ["ABC", "ABCDE"])
def test_a_dead_leader_is_replaced_by_the_first_of_the_others_without_waiting(names: str, seed: int) -> None:
    world = World(names, seed=seed)
    leader = world.leader()
    world.crash(leader)
    world.round()
    world.tell_reachable()
    world.until(world.leaders, ROUND_TRIPS)
    assert world.leaders() == [min(name for name in names if name != leader)]


def test_if_the_first_one_cannot_win_the_next_one_tries_soon() -> None:
    """A lacks an entry that B and C have, so it gets no votes."""
    world = World("ABC")
    world.leader()
    world["C"].state.elections.campaign(transfer=True)
    world.pump(world.nodes["C"])
    world.until(lambda: world.leaders() == ["C"])
    world.settle()
    world.partition("BC", "A", notify=False)
    world.write("C")
    world.settle("B", "C")
    world.group = {}
    world.crash("C")
    world.tell_reachable()
    world.until(world.leaders, world.settings.stagger_ticks + 2 * ROUND_TRIPS)
    assert world.leaders() == ["B"]


@pytest.mark.parametrize("names", ["AB", "ABCD"])
def test_divided_votes_are_asked_for_again_soon(names: str) -> None:
    """Several candidates stand at the same moment and none wins; none waits for a whole election timeout
    then."""
    world = World(names, settings=RaftSettings(election_ticks=120, stagger_ticks=3))
    rivals = names[: len(names) // 2 + 1]
    for name in rivals:
        world[name].state.elections.campaign()
    for name in rivals:
        world.pump(world.nodes[name])
    world.until(world.leaders, 3 * ROUND_TRIPS)


def test_a_candidate_refused_because_of_a_later_term_campaigns_again_soon() -> None:
    """B is in a later term, like a node that returns from a partition, and does not stand itself."""
    world = World("AB", settings=RaftSettings(election_ticks=120, stagger_ticks=3))
    world["B"].state.enter(7)
    world["A"].state.elections.start_pre_vote()
    world.pump(world.nodes["A"])
    world.until(world.leaders, 3 * ROUND_TRIPS)
    assert world.leaders() == ["A"]


def test_a_node_stands_as_soon_as_a_candidate_that_lacks_its_entries_asks() -> None:
    """The candidate has just started and could not vote at first, so the other node has been refused."""
    world = World("ABC", settings=RaftSettings(election_ticks=120, stagger_ticks=3))
    leader = world.leader()
    longer, shorter = others(world, leader)
    world.partition(leader + longer, shorter, notify=False)
    world.write(leader)
    world.settle(leader, longer)
    world.group = {}
    world[shorter].set_unmet(True)
    world.crash(leader)
    world.tell_reachable()
    world.run(3 * ROUND_TRIPS)
    assert not world.leaders()
    world[shorter].set_unmet(False)
    world[shorter].campaign()
    world.pump(world.nodes[shorter])
    world.until(world.leaders, 3 * ROUND_TRIPS)
    assert world.leaders() == [longer]


def test_a_follower_that_alone_lost_the_leader_starts_no_election() -> None:
    world = World("ABC")
    leader = world.leader()
    lonely, term = others(world, leader)[0], world[leader].term
    world[lonely].set_reachable(frozenset("ABC") - {leader})
    world.drop = lambda sender, to, message: {sender, to} == {lonely, leader}
    world.pump(world.nodes[lonely])
    world.run(100)
    assert world.leaders() == [leader]
    assert world[leader].term == term


def test_a_leader_that_has_lost_the_majority_knows_at_once() -> None:
    world = World("ABC")
    leader = world.leader()
    world.partition("".join(others(world, leader)), leader)
    assert world[leader].role is RaftRole.FOLLOWER
    assert world[leader].leader is None


def test_a_returning_follower_gets_missed_entries_without_waiting_for_a_heartbeat() -> None:
    world = World("ABC")
    leader = world.leader()
    away = others(world, leader)[0]
    world.settle()
    world[leader].set_reachable(frozenset("ABC") - {away})
    world.drop = lambda sender, to, message: away in (sender, to)
    key = world.propose(leader)
    world.pump(world.nodes[leader])
    world.drop = lambda sender, to, message: False
    world._mail.clear()
    world[leader].set_reachable(frozenset("ABC"))
    sent: list[Append] = []
    world.drop = lambda sender, to, message: _note(sent, to, away, message)
    world.pump(world.nodes[leader])
    due = list(world._mail)
    world._mail.clear()
    for _, sender, to, data in due:
        world._deliver(sender, to, data)
    assert sent
    assert key is not None
    numbers = [entry.payload.number for entry in sent[0].entries if isinstance(entry.payload, Command)]
    assert key[1] in numbers


def _note(sent: list[Append], to: str, wanted: str, message: Message) -> bool:
    """Keep a message to `wanted`; False, because none is dropped."""
    if to == wanted and isinstance(message, Append):
        sent.append(message)
    return False


def test_automatic_needs_a_majority_of_three_and_any_node_of_two() -> None:
    three, two = frozenset("ABC"), frozenset("AB")
    assert Automatic().electorate(three, frozenset("A"), "A") == three
    assert Automatic().electorate(two, frozenset("A"), "A") == frozenset("A")
    assert Automatic().electorate(two, two, "A") == two
    assert Majority().electorate(two, frozenset("A"), "A") == two


class OnlyWithC(Reachable):
    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return "C" in reachable | {me}


def test_a_rule_may_forbid_even_a_majority_to_go_on() -> None:
    world = World("ABC", rule=OnlyWithC)
    world.leader()
    world.partition("AB", "C")
    world.until(lambda: world.leaders() == ["C"])
    world.run(100)
    assert world.leaders() == ["C"]
    world.heal()
    world.settle()
