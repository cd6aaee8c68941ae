"""Scenario file: a run as text, with its options and each of its faults.

    One sentence that says what went wrong.

    seed 4711
    nodes 3
    mode autoheal
    queues m0 u1
    shovel on-confirm m8 m9 a -
    federation on-confirm exchange m95 b
    fault 100-5200 partition a c (17)

The faults are written out, so that a scenario stays the same when the meaning of seeds changes.
"""

from __future__ import annotations

import re
from typing import Any

from mirrormq.simulator.fault_plan import Fault
from mirrormq.simulator.simulated_federation import SimulatedFederation
from mirrormq.simulator.simulated_links import SimulatedShovel
from mirrormq.simulator.world import SimulationOptions, World

NUMBERS = (
    "seed",
    "nodes",
    "load_ms",
    "publishers",
    "consumers",
    "committers",
    "getters",
    "leasers",
    "holders",
    "producers",
    "readers",
    "tight_limits",
    "break_permille",
)
WORDS = ("mode", "recover", "redeliver")
INSIDE = "-"
"""Node of a shovel's end that is inside the node which runs the link."""

FAULT = re.compile(r"(\d+)-(\d+) (\S+) ([a-z ]+) \((\d+)\)")


def write(options: SimulationOptions) -> str:
    """Return the options as lines; the caller adds the sentence."""
    lines = [f"{name} {getattr(options, name)}" for name in (*NUMBERS, *WORDS)]
    lines.append(f"queues {' '.join(options.queues)}")
    lines.append(f"listed {' '.join(sorted(options.listed))}")
    lines += [f"shovel {' '.join(part or INSIDE for part in shovel)}" for shovel in options.shovels]
    lines += [f"federation {' '.join(part or INSIDE for part in each)}" for each in options.federations]
    for fault in World(options).schedule:
        nodes = " ".join(fault.nodes)
        lines.append(f"fault {fault.begins_ms}-{fault.ends_ms} {fault.kind} {nodes} ({fault.dice})")
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[str, SimulationOptions]:
    """Parse a scenario into its sentence and its options."""
    sentence, _, rest = text.partition("\n\n")
    values: dict[str, object] = {}
    schedule: list[Fault] = []
    shovels: list[SimulatedShovel] = []
    federations: list[SimulatedFederation] = []
    for line in rest.splitlines():
        name, _, value = line.partition(" ")
        if name in NUMBERS:
            values[name] = int(value)
        elif name in WORDS:
            values[name] = value
        elif name == "queues":
            values[name] = tuple(value.split())
        elif name == "listed":
            values[name] = frozenset(value.split())
        elif name == "shovel":
            parts = ("" if part == INSIDE else part for part in value.split())
            shovels.append(SimulatedShovel(*parts))
        elif name == "federation":
            parts = ("" if part == INSIDE else part for part in value.split())
            federations.append(SimulatedFederation(*parts))
        elif name == "fault" and (found := FAULT.fullmatch(value)):
            begins, ends, kind, nodes, dice = found.groups()
            schedule.append(
                Fault(len(schedule), kind, int(begins), int(ends), tuple(nodes.split()), int(dice))
            )
        else:
            raise ValueError(f"not a line of a scenario: {line}")
    links = {"shovels": tuple(shovels), "federations": tuple(federations)}
    given: dict[str, Any] = {**values, **links, "schedule": tuple(schedule)}
    return sentence, SimulationOptions(**given)
