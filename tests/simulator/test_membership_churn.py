"""Nodes that leave a simulated cluster and join again as new ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirrormq.cluster.partitions import AUTOHEAL, PAUSE_MINORITY
from mirrormq.consensus import Snapshot
from mirrormq.simulator.fault_plan import Fault
from mirrormq.simulator.operator import MERGE_AFTER_MS
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.world import SimulationOptions, World
from mirrormq.storage.consensus_log import ConsensusLog

LEFT = "a has left: its disk is wiped"


def leaving(
    seed: int, *, mode: str = PAUSE_MINORITY, queues: tuple[str, ...] = ("m0", "m1")
) -> SimulationOptions:
    """Return a run with three nodes, of which the first leaves and joins again."""
    schedule = (Fault(0, "leave", 500, 2500, ("a",), 0),)
    return SimulationOptions(seed, 3, mode, 4000, queues=queues, schedule=schedule)


def left(options: SimulationOptions) -> tuple[bool, str]:
    """Return whether the node has left, and the violations."""
    world, wrong, _ = outcome(options)
    return any(LEFT in line for line in world.trace), wrong


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_node_that_leaves_joins_again(seed: int) -> None:
    assert left(leaving(seed)) == (True, "")


def test_a_node_with_the_only_copy_stays() -> None:
    found = [left(leaving(seed, queues=("u0", "u1", "u2"))) for seed in range(1, 4)]
    assert (False, "") in found and not any(wrong for _, wrong in found)


def test_no_member_leaves_where_two_sides_may_forget_each_other() -> None:
    assert left(leaving(1, mode=AUTOHEAL)) == (False, "")


def test_the_operator_starts_no_node_that_was_asked_to_leave() -> None:
    """The others cannot agree on anything, so they still report the node as partitioned."""
    world = World(leaving(1))
    for node in world.nodes.values():
        node.start()
    world.timeline.run_until(5000)
    assert world.serving() == world.names
    faults = [Fault(0, "kill", 0, 60_000, ("a",), 0), Fault(1, "kill", 0, 60_000, ("b",), 0)]
    world.fault_injector.plan(faults, world.timeline.now_ms)
    for pause_ms in (1, MERGE_AFTER_MS, 1):
        world.timeline.run_until(world.timeline.now_ms + pause_ms)
        world.operator.act()
    assert any("the operator restarts a b" in line for line in world.trace)
    assert not world.nodes["a"].running and not world.nodes["b"].running


def test_a_newcomer_whose_proposals_have_its_predecessors_numbers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = ConsensusLog.open

    def forgetful(self: ConsensusLog, make: Callable[[], Snapshot], boots: int = 0) -> bool:
        return real(self, make)

    monkeypatch.setattr(ConsensusLog, "open", forgetful)
    assert any("does not serve" in left(leaving(seed))[1] for seed in range(1, 6))
