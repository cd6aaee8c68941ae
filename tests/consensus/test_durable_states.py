"""Nodes whose disks went back: peers detect them, they do not vote, and they vote again once caught up."""

from __future__ import annotations

import copy

import msgspec
import pytest

from mirrormq.consensus import DurableState, Reachable
from mirrormq.consensus.durable_states import STARTS_KEPT, went_back
from mirrormq.consensus.raft_messages import DiskStart
from tests.consensus.world import World

KNOWN = DurableState("a", boots=3, start=77, term=5, last=(5, 40))


def stated() -> DurableState:
    """Return the statement of a later start of the same node, with the same log."""
    return msgspec.structs.replace(KNOWN, boots=4, start=78)


@pytest.mark.parametrize(
    "changes", [{}, {"last": (5, 41)}, {"term": 6}, {"term": 6, "last": (4, 39)}, {"boots": 9}]
)
def test_a_later_start_with_the_same_log_or_more_has_not_gone_back(changes: dict[str, object]) -> None:
    assert not went_back(KNOWN, msgspec.structs.replace(stated(), **changes))


@pytest.mark.parametrize(
    "changes", [{"boots": 3}, {"boots": 2}, {"term": 4}, {"last": (5, 39)}, {"last": (4, 90)}]
)
def test_fewer_starts_an_older_term_or_a_shorter_log_show_an_older_copy(changes: dict[str, object]) -> None:
    assert went_back(KNOWN, msgspec.structs.replace(stated(), **changes))


def test_a_lower_statement_of_the_same_start_is_only_late() -> None:
    assert not went_back(KNOWN, msgspec.structs.replace(KNOWN, term=1, last=(1, 1)))


def link(world: World, name: str) -> bool:
    """Link a node to its peers, and return whether one of them finds that its disk went back."""
    lost = [world[peer].peer_linked(world[name].durable_state) for peer in world.names if peer != name]
    for remembered in lost:
        if remembered is not None:
            world[name].state_lost(remembered)
    return any(lost)


def restored(starts: int = 1) -> World:
    """Return a cluster in which C got an older copy of its disk and then led alone, in some later starts."""
    world = World("ABC", rule=Reachable)
    leader = world.leader()
    world.write(leader)
    world.settle()
    older = copy.deepcopy(world.nodes["C"].disk)
    for _ in range(5):
        world.write(leader)
    world.settle()
    assert not link(world, "C")
    world.crash("C")
    world.nodes["C"].disk = older
    world.nodes["C"].machine.clear()
    for _ in range(starts):
        world.crash("C")
        world.restart("C")
        world.partition("AB", "C")
        world.until(lambda: "C" in world.leaders())
    return world


def test_a_restored_node_is_found_although_it_has_led_alone_since() -> None:
    world = restored()
    known = world["A"].state.durable_states.known["C"]
    assert world["C"].durable_state.term > known.term, "its term alone does not give it away"
    assert link(world, "C")
    assert "C" in world["A"].behind
    assert world["C"].state.durable_states.abstains
    assert "C" not in world.leaders()


@pytest.mark.parametrize("starts", [2, STARTS_KEPT - 1])
def test_a_restored_node_is_found_after_more_starts(starts: int) -> None:
    assert link(restored(starts), "C")


def test_a_restored_node_counts_again_when_a_leader_has_replaced_its_log() -> None:
    world = restored()
    assert link(world, "C")
    world.heal()
    world.until(lambda: not world["C"].state.durable_states.abstains)
    assert world.equal()
    for peer in "AB":
        world[peer].peer_stated(world["C"].durable_state)
        assert "C" not in world[peer].behind
    world.crash("C")
    world.restart("C")
    assert not link(world, "C"), "it has made up for the start that it lost"


def test_an_entry_of_its_own_does_not_make_up_for_what_a_node_lost() -> None:
    world = restored()
    assert link(world, "C")
    assert world["C"].durable_state.last > world["A"].state.durable_states.known["C"].last
    assert link(world, "C")
    world["A"].peer_stated(world["C"].durable_state)
    assert "C" in world["A"].behind


def test_a_peer_that_starts_again_still_finds_what_another_one_lost() -> None:
    world = restored()
    assert link(world, "C")
    world.crash("A")
    world.restart("A")
    assert world["A"].peer_linked(world["C"].durable_state) is not None


def test_a_node_of_the_version_before_is_not_taken_for_a_restored_one() -> None:
    first = DiskStart(4, 78, 5, (5, 40))
    assert not went_back(KNOWN, msgspec.structs.replace(stated(), starts=(first,)))


def test_a_restored_node_makes_up_for_the_furthest_state_that_a_peer_has_seen() -> None:
    world = restored()
    known = world["A"].state.durable_states.known["C"]
    index = known.last[1]
    less = msgspec.structs.replace(known, last=(known.last[0], index - 2))
    for remembered in (less, known, less):
        world["C"].state_lost(remembered)
    states = world["C"].state.durable_states
    assert states.forgotten == {known.start: known}
    world.heal()
    world.until(lambda: not states.forgotten)
    assert not went_back(known, world["C"].durable_state), "it counts again for every peer"
    assert not world["C"].state_lost(less) and not states.forgotten, "a late report of less"
    more = msgspec.structs.replace(known, last=(known.last[0] + 9, 1))
    world["C"].state_lost(more)
    assert states.forgotten == {known.start: more}, "a peer that was away has seen more"


def test_a_peer_that_remembers_an_earlier_start_accepts_what_was_made_up_for() -> None:
    """The node started (77), was restored to a copy that knew of it, and made up for a later start (78)."""
    loaded = [
        DiskStart(3, 77, 0, (0, 0)),
        DiskStart(4, 90, 4, (4, 12)),
        DiskStart(4, 78, 6, (6, 50)),
        DiskStart(5, 90, 6, (6, 51)),
    ]
    now = DurableState("a", 5, 90, 6, (6, 51), tuple(loaded))
    assert went_back(KNOWN, msgspec.structs.replace(now, starts=now.starts[:2])), "not made up for yet"
    assert not went_back(KNOWN, now)
    again = (*now.starts, DiskStart(6, 91, 5, (5, 20)))
    assert went_back(KNOWN, msgspec.structs.replace(now, start=91, starts=again)), "restored once more"
