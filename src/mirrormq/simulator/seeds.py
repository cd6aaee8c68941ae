"""Options of a run by seed: cluster size, partition mode, queues, clients and faults.

All values are drawn with weights: common configurations often, every other one sometimes.
"""

from __future__ import annotations

import argparse
import random

from mirrormq.cluster.partitions import AUTO, AUTOHEAL, IGNORE, PAUSE_IF_ALL_DOWN, PAUSE_MINORITY
from mirrormq.simulator.fault_plan import FORKS, KINDS
from mirrormq.simulator.simulated_federation import EXCHANGE, QUEUE, SimulatedFederation
from mirrormq.simulator.simulated_links import SimulatedShovel
from mirrormq.simulator.world import SimulationOptions

NODES = {2: 5, 3: 8, 5: 1}
SEVEN = 7
LARGE = 0.03
"""Share of runs with seven nodes; drawn separately, so that the size of other runs stays the same."""

MODES = {AUTO: 5, AUTOHEAL: 4, PAUSE_MINORITY: 3, IGNORE: 3, PAUSE_IF_ALL_DOWN: 2}
QUEUES = {"m": 6, "d": 3, "t": 1, "u": 2, "v": 1, "p": 2, "s": 2}
"""Weights of the kinds of queues (`workload.durable`)."""

REDELIVER = {"": 5, "lost": 4, "changing": 1}
"""Weights of `ha-redeliver` (`SimulationOptions.redeliver`); drawn separately, so that everything else of a
seed stays the same."""

QUEUES_MAX = 4
CLIENTS_MAX = 3
FAULTS_MAX = 6
LINKS = {0: 3, 1: 1, 2: 1}
"""Weights of the number of shovels; drawn separately, so that everything else of a seed stays the same."""

UPGRADES = 0.05
"""Share of runs that begin with the oldest protocol version; drawn separately."""

FEDERATIONS = {0: 4, 1: 1}
"""Weights of the number of federated objects; drawn separately."""

LINK_MODES = {"on-confirm": 4, "on-publish": 1, "no-ack": 1}
BREAKS_PERMILLE = (0, 5, 20, 60)
LOAD_MS = (2500, 7500)
"""Range of the load phase: short runs find errors that need few events, and more of them fit into the
time."""


def kinds_in(text: str) -> tuple[str, ...]:
    """Return the kinds of faults in a list; empty: all of them, `forks`: those that lead to forks."""
    if text in ("", "forks"):
        return FORKS if text else tuple(KINDS)
    return tuple(text.split(","))


def checked_kinds(text: str) -> str:
    """Check the list of kinds of faults in a command line."""
    unknown = [kind for kind in kinds_in(text) if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no fault '{unknown[0]}'; the faults are forks, {', '.join(KINDS)}"
        )
    return text


def options_of(
    seed: int,
    nodes: int = 0,
    mode: str = "",
    faults: int = 0,
    load_ms: int = 0,
    *,
    tight_limits: bool = False,
    redeliver: str = "",
) -> SimulationOptions:
    """Return the options of a run; given values are not drawn."""
    choice = random.Random(f"{seed} options")

    def one_of(weights: dict[str, int]) -> str:
        return choice.choices(list(weights), list(weights.values()))[0]

    drawn_nodes, drawn_mode = choice.choices(list(NODES), list(NODES.values()))[0], one_of(MODES)
    kinds = ["m", *(one_of(QUEUES) for _ in range(choice.randrange(QUEUES_MAX)))]
    drawn_faults, drawn_load = choice.randint(1, FAULTS_MAX), choice.randint(*LOAD_MS)
    failover = random.Random(f"{seed} failover")
    drawn_redeliver = redeliver or failover.choices(list(REDELIVER), list(REDELIVER.values()))[0]
    holders = failover.randint(0, CLIENTS_MAX)
    pipeline = random.Random(f"{seed} pipeline")
    count = nodes or (SEVEN if pipeline.random() < LARGE else drawn_nodes)
    producers, readers = pipeline.choices((0, 1, 2), (6, 2, 1))[0], pipeline.choices((0, 1), (3, 1))[0]
    if producers:
        kinds.append("i")
    names = [chr(ord("a") + number) for number in range(count)]
    drawn = SimulationOptions(
        seed,
        count,
        mode or drawn_mode,
        load_ms or drawn_load,
        faults or drawn_faults,
        tuple(f"{kind}{number}" for number, kind in enumerate(kinds)),
        choice.randint(1, CLIENTS_MAX),
        choice.randint(1, CLIENTS_MAX),
        frozenset(choice.sample(names, choice.randint(1, count))),
        choice.choice((IGNORE, AUTOHEAL)),
        choice.choices((0, 1, 2), (5, 3, 1))[0],
        choice.choices((0, 1, 2), (5, 3, 1))[0],
        choice.choices((0, 1, 2), (5, 3, 1))[0],
        choice.choices((0, seed), (2, 1))[0] or seed * tight_limits,
        holders=holders if drawn_redeliver else 0,
        redeliver=drawn_redeliver,
        producers=producers,
        readers=readers,
        upgrade=random.Random(f"{seed} upgrade").random() < UPGRADES,
    )
    return _with_federation(_with_links(drawn, names), names)


def _with_links(options: SimulationOptions, names: list[str]) -> SimulationOptions:
    """Draw the shovels of a run, and how often their connections break."""
    choice = random.Random(f"{options.seed} links")
    shovels = []
    for number in range(choice.choices(list(LINKS), list(LINKS.values()))[0]):
        mode = choice.choices(list(LINK_MODES), list(LINK_MODES.values()))[0]
        source = f"{choice.choice('mmu')}8{number}"
        ends = [choice.choice(("", choice.choice(names))) for _ in range(2)]
        shovels.append(SimulatedShovel(mode, source, f"m9{number}", *ends))
    breaks = choice.choice(BREAKS_PERMILLE) if shovels else 0
    return options._replace(shovels=tuple(shovels), break_permille=breaks)


def _with_federation(options: SimulationOptions, names: list[str]) -> SimulationOptions:
    """Draw the federated exchanges and queues of a run. Nodes of the oldest version run no links, so what is
    published before the upgrade would reach no internal queue."""
    if options.upgrade:
        return options
    choice = random.Random(f"{options.seed} federation")
    federations = tuple(
        SimulatedFederation(
            choice.choices(list(LINK_MODES), list(LINK_MODES.values()))[0],
            choice.choice((EXCHANGE, QUEUE)),
            f"m95{number}",
            choice.choice(("", choice.choice(names))),
        )
        for number in range(choice.choices(list(FEDERATIONS), list(FEDERATIONS.values()))[0])
    )
    breaks = options.break_permille or (choice.choice(BREAKS_PERMILLE) if federations else 0)
    return options._replace(federations=federations, break_permille=breaks)
