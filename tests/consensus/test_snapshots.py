"""Snapshots replace logs: on disk, on the wire, for the state, the members and the applied proposals."""

from __future__ import annotations

import pytest

from mirrormq.consensus import Message
from mirrormq.consensus.raft_messages import Chunk
from tests.consensus.test_beyond_the_paper import others
from tests.consensus.world import World


def compact(world: World, name: str) -> None:
    world[name].compact(world[name].applied_index, world.nodes[name].state())
    world.pump(world.nodes[name])


def test_a_node_restarts_to_the_same_state_from_a_snapshot_as_from_its_log() -> None:
    with_log, with_snapshot = World("A", seed=3), World("A", seed=3)
    for world in (with_log, with_snapshot):
        for _ in range(8):
            world.write("A")
        if world is with_snapshot:
            compact(world, "A")
        world.write("A")
        world.crash("A")
        world.restart("A")
        world.leader()
        world.write("A")
    assert with_log.nodes["A"].machine == with_snapshot.nodes["A"].machine
    assert len(with_snapshot.nodes["A"].disk.load().entries) < len(with_log.nodes["A"].disk.load().entries)
    rows = [world["A"].state.proposals.applied.rows() for world in (with_log, with_snapshot)]
    assert rows[0] == rows[1]


def test_a_follower_far_behind_gets_the_snapshot_in_bounded_parts() -> None:
    world = World("ABC")
    leader = world.leader()
    late = others(world, leader)[0]
    world.partition("".join(others(world, late)), notify=False)
    for _ in range(30):
        world.write(leader)
    compact(world, leader)
    parts: list[Chunk] = []

    def watch(sender: str, to: str, message: Message) -> bool:
        if isinstance(message, Chunk):
            parts.append(message)
        return False

    world.drop = watch
    world.group = {}
    world.settle()
    assert len(parts) > 5
    assert all(len(part.data) <= world.settings.chunk_bytes_max for part in parts)
    assert world[late].state.log.snapshot_index == world[leader].state.log.snapshot_index


def test_a_follower_slightly_behind_gets_entries_in_spite_of_a_snapshot() -> None:
    world = World("ABC")
    leader = world.leader()
    late = others(world, leader)[0]
    world.settle()
    world.partition("".join(others(world, late)), notify=False)
    world.write(leader)
    compact(world, leader)
    world.drop = lambda sender, to, message: isinstance(message, Chunk)
    world.group = {}
    world.settle()


def test_a_transfer_survives_a_newer_snapshot_and_a_crash_in_its_middle() -> None:
    world = World("ABC")
    leader = world.leader()
    late = others(world, leader)[0]
    world.partition("".join(others(world, late)), notify=False)
    for _ in range(20):
        world.write(leader)
    compact(world, leader)
    world.group = {}
    world.until(lambda: world[late].state.transfer._parts, 30)
    world.write(leader)
    compact(world, leader)
    world.run(2)
    world.crash(late)
    world.restart(late)
    world.settle()


def test_snapshots_are_taken_at_the_applied_index_only() -> None:
    world = World("A")
    world.leader()
    world.write("A")
    with pytest.raises(ValueError, match="not at 0"):
        world["A"].compact(0, b"")


def test_a_snapshot_keeps_members_and_recognises_old_proposals() -> None:
    world = World("ABC")
    leader = world.leader()
    key = world.write(leader)
    for name in world.names:
        compact(world, name)
    world.settle()
    snapshot = world[leader].export(world.nodes[leader].state())
    assert snapshot.members.voters == ("A", "B", "C")
    assert [row.origin for row in snapshot.applied if key[1] in row.numbers] == [leader]
