"""Simulated cluster with a few seeds; `make sim` runs as many as there is time for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mirrormq.cluster.partitions import AUTO, AUTOHEAL, IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY
from mirrormq.protocol_version import PROTOCOL_VERSION
from mirrormq.simulator.fault_plan import KINDS, UPGRADE
from mirrormq.simulator.seeds import kinds_in, options_of
from mirrormq.simulator.shrinking import outcome
from mirrormq.simulator.world import World


@pytest.mark.parametrize("seed", range(1, 25))
def test_nothing_goes_wrong(seed: int) -> None:
    world, wrong, _ = outcome(options_of(seed))
    assert not wrong
    assert world.history.confirmed


def test_seeds_stand_for_everything() -> None:
    drawn = [options_of(seed) for seed in range(300)]
    assert {options.nodes for options in drawn} == {2, 3, 5, 7}
    assert {options.mode for options in drawn} == {AUTO, AUTOHEAL, IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY}
    assert {queue[0] for options in drawn for queue in options.queues} == set("dimpstuv")
    assert {options.upgrade for options in drawn} == {False, True}


def test_a_given_option_is_not_drawn_and_changes_no_other() -> None:
    drawn, given = options_of(7), options_of(7, mode=IGNORE)
    assert given == drawn._replace(mode=IGNORE)


PLAY = """
from mirrormq.simulator.seeds import options_of
from mirrormq.simulator.shrinking import outcome

for seed in (3, 8, 20):
    world = outcome(options_of(seed)).world
    print(world.timeline.now_ms, world.history.delivered, world.trace)
"""


def test_a_seed_decides_everything() -> None:
    """The seed also fixes the iteration order of sets, which Python randomises per process."""
    one, other = (
        subprocess.run(
            [sys.executable, "-c", PLAY],
            env={**os.environ, "PYTHONHASHSEED": order},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for order in "12"
    )
    assert one == other and "delivered" in one.lower()


@pytest.mark.parametrize("seed", range(1, 7))
def test_nodes_are_upgraded_one_by_one(seed: int) -> None:
    # Nodes of the oldest version run no links, and messages published before the upgrade would reach no
    # federated queue.
    world, wrong, _ = outcome(options_of(seed)._replace(upgrade=True, federations=()))
    assert not wrong
    assert world.history.confirmed
    assert {node.member.version for node in world.nodes.values()} == {PROTOCOL_VERSION}
    assert sum(fault.kind == UPGRADE for fault in world.schedule) == len(world.nodes)


def test_given_kinds_of_faults_are_the_only_ones() -> None:
    kinds = kinds_in("kill,partition")
    faults = [
        fault
        for seed in range(30)
        for fault in World(options_of(seed)._replace(fault_kinds=kinds, upgrade=False)).schedule
    ]
    assert {fault.kind for fault in faults} == {"kill", "partition"}
    assert set(kinds_in("forks")) < set(KINDS) == set(kinds_in(""))


def test_an_unknown_kind_of_fault_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "mirrormq.simulator", "--kinds", "kill,earthquake"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (
        ended.returncode == 2 and "there is no fault 'earthquake'; the faults are forks, kill" in ended.stderr
    )
