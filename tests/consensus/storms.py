"""Storm: a run with random faults by seed, then a phase without faults in which all nodes must converge.

The soak test and the mutation tests use it.
"""

from __future__ import annotations

from mirrormq.consensus import Consensus, ConsensusError, Majority, Reachable
from mirrormq.consensus.log_history import LogRelation, compare
from tests.consensus.world import Weather, World

STORM_ROUNDS = 150
"""Rounds with faults: long enough for some ten elections."""


class Storm:
    """Run of one seed."""

    def __init__(self, seed: int, rule: type[Majority | Reachable], node_type: type[Consensus]) -> None:
        size = 2 + seed % 4 if rule is Reachable else 1 + seed % 5
        self.world = World("ABCDE"[:size], rule=rule, seed=seed, node_type=node_type)
        chance = self.chance = self.world.random.randrange
        self.world.weather = Weather(chance(20), chance(20), chance(4), chance(30))
        self.world.crash_chance = chance(8)

    def run_steps(self) -> None:
        """Inject faults, proposals, compactions and membership changes."""
        for _ in range(STORM_ROUNDS):
            name = self.world.names[self.chance(len(self.world.names))]
            self._strike(name, self.chance(100))
            self.world.round()

    def _strike(self, name: str, what: int) -> None:
        world = self.world
        core = world.nodes[name].core
        if core is None:
            if what < 25:
                world.restart(name)
                world.tell_reachable()
        elif what < 40:
            world.propose(name)
        elif what < 44:
            world.crash(name)
        elif what < 48:
            groups = ["", ""]
            for other in world.names:
                groups[self.chance(2)] += other
            world.partition(*groups, notify=False)
        elif what < 54:
            world.group = {}
        elif what < 70:
            world.notify(name)
        elif what < 76:
            core.compact(core.applied_index, world.nodes[name].state())
            world.pump(world.nodes[name])
        elif what < 82:
            self._change(name, core, what)

    def _change(self, name: str, core: Consensus, what: int) -> None:
        """Transfer leadership, or add or remove a node."""
        other = self.world.names[self.chance(len(self.world.names))]
        try:
            if what < 80:
                core.transfer_leadership(other)
            elif len(core.members.voters) > 2 and other not in core.members.learners and other != name:
                core.propose_members(remove=other)
            elif other not in core.members.everyone:
                core.propose_members(add=other)
        except (ConsensusError, ValueError):
            return
        self.world.pump(self.world.nodes[name])

    def heal_and_settle(self) -> None:
        """Stop all faults and reset forked nodes; all nodes must converge."""
        world = self.world
        world.weather, world.crash_chance = Weather(), 0
        for name, node in world.nodes.items():
            if node.core is None:
                world.restart(name)
        world.heal()
        for _ in world.names:
            world.run(60)
            self._reset_losers()
        self._bring_back_members()
        world.settle()
        for node in world.nodes.values():
            world.kept.caught_up(node)

    def _reset_losers(self) -> None:
        """Reset the losers of every fork; the node with the most changes wins.

        Two sides may have removed each other and would never find the fork. The operator therefore compares
        the histories directly.
        """
        world = self.world
        winner = max(world.names, key=lambda name: world[name].state.log.worth)
        for name in world.names:
            mine, theirs = (world[each].state.log.history() for each in (winner, name))
            if compare(mine, theirs).verdict is LogRelation.FORK:
                world.reset(name, winner)

    def _bring_back_members(self) -> None:
        """Let removed nodes join again."""
        world = self.world

        def everyone_votes() -> bool:
            leaders = [name for name in world.leaders() if name in world[name].members.voters]
            leader = max(leaders, key=lambda name: world[name].term, default=None)
            if leader is None:
                return False
            for name in world.names:
                if name not in world[leader].members.everyone:
                    try:
                        world[leader].propose_members(add=name)
                    except (ConsensusError, ValueError):
                        return False
                    world.pump(world.nodes[leader])
            return all(world[name].members == world[leader].members for name in world.names) and (
                set(world[leader].members.voters) == set(world.names)
            )

        world.until(everyone_votes, 1500)


def storm(seed: int, rule: type[Majority | Reachable], node_type: type[Consensus] = Consensus) -> World:
    """Run one seed. Raises if a checker objects."""
    run = Storm(seed, rule, node_type)
    run.run_steps()
    run.heal_and_settle()
    return run.world
