"""Member storms: random crashes, cuts, joins and writes. Completed writes survive, and all nodes agree."""

from __future__ import annotations

from functools import partial

import pytest

from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS, ClusterLimits
from mirrormq.consensus import Majority
from mirrormq.metadata import commands as c
from tests.cluster.members import World, cluster, declare

STRIKES = 60


class Storm:
    """Run of one seed, with the writes that were reported as done."""

    def __init__(self, seed: int, limits: ClusterLimits = DEFAULT_LIMITS) -> None:
        self.world = cluster(3 + seed % 3, seed=seed, rule=Majority, delay_ms=1 + seed % 4, limits=limits)
        self.chance = self.world.random.randrange
        self.written = 0
        self.done: set[str] = set()
        self.orders: dict[str, list[int]] = {}

    def run_steps(self) -> None:
        for _ in range(STRIKES):
            names = list(self.world.nodes)
            name = names[self.chance(len(names))]
            self._strike(name, self.chance(10))
            self.world.run(self.chance(60))

    def _strike(self, name: str, what: int) -> None:
        world, node = self.world, self.world.nodes[name]
        if node.member is None:
            if what < 6:
                world.restart(name)
        elif what < 5:
            self._write(name, 1 + self.chance(20))
        elif what == 5:
            world.crash(name) if self.chance(2) else world.end(name)
        elif what == 6:
            world.suspect(name)
            world.link()
        elif what == 7:
            side = [other for other in world.nodes if self.chance(2)]
            world.cut(side, [other for other in world.nodes if other not in side])
        elif what == 8:
            world.heal()
        elif name not in ("a", "b") and len(world.nodes) < 6:
            world.join(f"n{len(world.nodes)}")

    def _write(self, name: str, count: int) -> None:
        for _ in range(count):
            self.written += 1
            queue = f"{name} {self.written}"
            self.world[name].metadata.write(declare(queue), partial(self.done.add, queue))

    def heal_and_settle(self) -> None:
        for name, node in self.world.nodes.items():
            if node.member is None:
                self.world.restart(name)
        self.world.heal()
        self.world.leader()
        self.world.until(lambda: self.world.settled() and self._all_joined(), 60_000)

    def _all_joined(self) -> bool:
        return all(self.world[name].joined for name in self.world.nodes)


def check(world: World, storm: Storm) -> None:
    for name in world.nodes:
        found = [queue.name for queue in world[name].metadata.state.queues.values()]
        assert storm.done <= set(found), "what was done is there"
        for origin in world.nodes:
            numbers = [int(queue.split()[1]) for queue in found if queue.startswith(f"{origin} ")]
            assert numbers == sorted(numbers), "in the order of its writer"


@pytest.mark.parametrize("seed", range(24))
def test_settled_messages_stay_settled_under_random_faults(seed: int) -> None:
    storm = Storm(seed, ClusterLimits(log_bytes_max=400 * (1 + seed % 5)))
    storm.run_steps()
    storm.heal_and_settle()
    check(storm.world, storm)
    assert storm.done
    storm.world.write("a", c.DeleteQueue("/", min(storm.done)))
