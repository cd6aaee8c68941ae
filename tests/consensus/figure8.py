"""Figure 8 of the Raft paper: why a leader must not count copies of an older term's entries.

A writes x, which only B gets. E, elected without them, writes another entry in its place. A leads again and
replicates x to C and D, so that a majority has it, but no entry of A's new term. A leader that counts x as
committed now is wrong: E may still be elected by C and D, and overwrite it.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.consensus import Consensus, Message, RaftRole, RaftSettings
from mirrormq.consensus.raft_messages import Append, Nothing, PreVote, Vote
from tests.consensus.world import World

Drop = Callable[[str, str, Message], bool]
SETTINGS = RaftSettings(append_bytes_max=1, inflight_max=4)
"""One entry per message, so that an old entry can pass without the new one."""


def figure_8(node_type: type[Consensus]) -> None:
    """Run the scenario; the world's checkers object if x was committed."""
    world = World("ABCDE", settings=SETTINGS, node_type=node_type)
    elect(world, "A")
    world.settle()
    world.drop = only_entries_to("B")
    world.propose("A")
    index = world["A"].state.log.last
    world.until(lambda: world["B"].state.log.last == index, 5)
    world.crash("A")
    world.crash("B")
    elect(world, "E", entries_to="")
    world.propose("E")
    world.crash("E")
    world.restart("A")
    world.restart("B")
    elect(world, "A", entries_to="")
    world.drop = without_the_new_term(world, "CD")
    world.until(lambda: world["C"].state.log.last == world["D"].state.log.last == index, 20)
    world.run(3)
    world.crash("A")
    world.crash("B")
    world.restart("E")
    world.drop = lambda sender, to, message: sender in "AB"
    world.until(lambda: world["E"].role is RaftRole.LEADER)
    world.drop = lambda sender, to, message: False
    for name in "AB":
        world.restart(name)
    world.settle()


def elect(world: World, name: str, entries_to: str | None = None) -> None:
    """Make one node the only leader, while entries reach only some nodes."""
    if entries_to is not None:
        withheld = only_entries_to(entries_to)
        world.drop = lambda sender, to, message: (
            withheld(sender, to, message) or (isinstance(message, PreVote | Vote) and sender != name)
        )

    def leads() -> bool:
        if world[name].role is RaftRole.FOLLOWER:
            world[name].campaign()
            world.pump(world.nodes[name])
        return world.leaders() == [name]

    world.until(leads)


def only_entries_to(names: str) -> Drop:
    def drop(sender: str, to: str, message: Message) -> bool:
        return isinstance(message, Append) and bool(message.entries) and to not in names

    return drop


def without_the_new_term(world: World, names: str) -> Drop:
    """Deliver old entries to some nodes; drop the new leader's first entry wherever it would be accepted."""

    def drop(sender: str, to: str, message: Message) -> bool:
        if not isinstance(message, Append) or not message.entries:
            return False
        fresh = any(isinstance(e.payload, Nothing) and e.term == message.term for e in message.entries)
        return to not in names or (fresh and world[to].state.log.last >= message.previous)

    return drop
