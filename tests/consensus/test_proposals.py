"""Proposals are made on any node, sent again to every new leader, and applied once."""

from __future__ import annotations

import pytest

from mirrormq.consensus import (
    Automatic,
    Busy,
    Consensus,
    MemoryLog,
    Message,
    NotLeader,
    RaftRole,
    RaftSettings,
    founded,
)
from mirrormq.consensus.proposals import AppliedOnce
from mirrormq.consensus.raft_messages import Command, Forward
from mirrormq.consensus.raft_settings import ORIGINS_MAX
from tests.consensus.test_beyond_the_paper import others
from tests.consensus.world import World


def test_a_follower_recognises_its_own_proposal_when_it_is_applied() -> None:
    world = World("ABC")
    follower = others(world, world.leader())[0]
    key = world.propose(follower)
    world.settle()
    assert world.nodes[follower].machine == [key]
    assert not world[follower].state.proposals.outstanding


def test_entries_without_a_command_are_not_the_end_of_the_work() -> None:
    """Each start of a node that is the whole cluster writes such an entry. A `Ready` has room for one."""
    log = MemoryLog(founded(["A"], 1))
    for _ in range(10):
        raft = Consensus("A", log, Automatic(), lambda below: 0, RaftSettings(committed_bytes_max=1))
        raft.campaign()
        while not (ready := raft.ready()).empty:
            log.save(ready)
            raft.advance()
        raft.advance()
        assert raft.role is RaftRole.LEADER
        assert raft.applied_index == raft.commit_index


def test_without_a_leader_a_proposal_is_refused() -> None:
    with pytest.raises(NotLeader) as refusal:
        World("ABC")["A"].propose(b"")
    assert refusal.value.leader is None


def test_a_forwarded_proposal_survives_its_leader_and_is_applied_once() -> None:
    """The old leader replicated the proposal and failed before its origin learned of it: the origin sends it
    again."""
    world = World("ABC")
    leader = world.leader()
    origin = others(world, leader)[0]
    world.settle()
    world.drop = lambda sender, to, message: to == origin
    key = world.propose(origin)
    assert key is not None
    world.until(lambda: key in world.nodes[leader].machine, 20)
    world.crash(leader)
    world.drop = lambda sender, to, message: False
    world.until(lambda: key in world.nodes[origin].machine)
    for _ in range(3):
        world.write(origin)
    world.restart(leader)
    world.settle()
    assert all(node.machine.count(key) == 1 for node in world.nodes.values())


def test_two_copies_in_the_log_are_applied_once() -> None:
    world = World("A")
    world.leader()
    key = world.write("A")
    log, state = world["A"].state.log, world["A"].state
    log.write(state.term, state.run.branch, Command("A", key[1], 0, b"again"))
    world.pump(world.nodes["A"])
    assert log.applied == log.last
    assert world.nodes["A"].machine == [key]


def test_a_lost_proposal_is_sent_again() -> None:
    world = World("ABC")
    follower = others(world, world.leader())[0]
    lost: list[Message] = []

    def lose_the_first(sender: str, to: str, message: Message) -> bool:
        if isinstance(message, Forward) and not lost:
            lost.append(message)
            return True
        return False

    world.drop = lose_the_first
    key = world.propose(follower)
    world.until(lambda: key in world.nodes[follower].machine, 30)
    assert lost


def test_a_proposal_of_an_earlier_incarnation_is_never_confused_with_one_of_this() -> None:
    world = World("ABC")
    leader = world.leader()
    follower = others(world, leader)[0]
    before = world.write(follower)
    world.crash(follower)
    world.restart(follower)
    after = world.write(follower)
    assert after[1] >> 32 == (before[1] >> 32) + 1
    world.settle()


def test_a_proposal_that_is_in_a_snapshot_is_reported_as_settled() -> None:
    world = World("ABC")
    leader = world.leader()
    origin = others(world, leader)[0]
    world.settle()
    world.drop = lambda sender, to, message: to == origin
    key = world.propose(origin)
    assert key is not None
    assert key is not None
    world.until(lambda: key in world.nodes[leader].machine, 20)
    for _ in range(10):
        world.write(leader)
    world[leader].compact(world[leader].applied_index, world.nodes[leader].state())
    world.pump(world.nodes[leader])
    world.drop = lambda sender, to, message: False
    world.settle()
    assert [number for ready in world.nodes[origin].ready_log for number in ready.settled] == [key[1]]
    assert not world[origin].state.proposals.outstanding


def test_the_window_of_proposals_is_bounded() -> None:
    world = World("ABC", settings=RaftSettings(proposals_max=3))
    follower = others(world, world.leader())[0]
    assert all(world.propose(follower) is not None for _ in range(3))
    with pytest.raises(Busy):
        world[follower].propose(b"")
    world.settle()
    assert world.propose(follower) is not None
    with pytest.raises(ValueError, match="too large"):
        world[follower].propose(bytes(9 * 1024 * 1024))


def test_the_table_of_applied_proposals_is_bounded() -> None:
    table = AppliedOnce(())
    for number in range(5000):
        assert table.add(Command("A", number, max(0, number - 10), b""), number)
        assert not table.add(Command("A", number, 0, b""), number)
    [row] = table.rows()
    assert len(row.numbers) == 11
    for number in range(200):
        table.add(Command(f"gone-{number}", 1, 0, b""), 5000 + number)
    table.forget_strangers(("A",))
    origins = {row.origin for row in table.rows()}
    assert len(origins) == ORIGINS_MAX + 1
    assert {"A", "gone-199"} <= origins


def test_proposals_of_one_origin_keep_their_order_when_some_of_them_get_lost() -> None:
    world = World("ABC", seed=1)
    leader = world.leader()
    origin = next(name for name in "ABC" if name != leader)
    first: list[Message] = []

    def lose_the_first(sender: str, to: str, message: Message) -> bool:
        if isinstance(message, Forward) and (not first or message == first[0]) and len(first) < 3:
            first.append(message)
            return True
        return False

    world.drop = lose_the_first
    keys = [world.propose(origin) for _ in range(4)]
    assert None not in keys
    world.until(lambda: set(keys) <= set(world.nodes[origin].machine))
    assert [key for key in world.nodes[leader].machine if key in keys] == keys
    assert first, "something did get lost"


def test_a_follower_does_not_insist_on_an_earlier_leaders_decision() -> None:
    """Only the leader wrote the decision. When it follows another leader, a harmless replacement takes its
    place, and later proposals are not delayed."""
    world = World("ABC")
    leader = world.leader()
    world.settle()
    world.drop = lambda sender, to, message: leader in (sender, to)
    for number in (world[leader].propose(b"decided", b"void"), world[leader].propose(b"wished")):
        world.once.proposed((leader, number))
    world.until(lambda: any(world[name].role is RaftRole.LEADER for name in others(world, leader)))
    world.drop = lambda sender, to, message: False
    world.until(lambda: not world[leader].state.proposals.outstanding)
    log = world[leader].state.log
    entries = [entry.payload for entry in log.between(log.snapshot_index, log.last)]
    found = [payload.data for payload in entries if isinstance(payload, Command) and payload.origin == leader]
    assert found[-2:] == [b"void", b"wished"] and b"decided" not in found
