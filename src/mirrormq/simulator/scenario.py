"""Scenario file: a run as text, with its options and each of its faults.

    One sentence that says what went wrong.

    seed 4711
    nodes 3
    mode autoheal
    queues m0 u1
    fault 100-5200 partition a c (17)

The faults are written out, so that a scenario stays the same when the meaning of seeds changes.
"""

from __future__ import annotations

import re

from mirrormq.simulator.fault_plan import Fault
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
)
WORDS = ("mode", "recover", "redeliver")
FAULT = re.compile(r"(\d+)-(\d+) (\S+) ([a-z ]+) \((\d+)\)")


def write(options: SimulationOptions) -> str:
    """Return the options as lines; the caller adds the sentence."""
    lines = [f"{name} {getattr(options, name)}" for name in (*NUMBERS, *WORDS)]
    lines.append(f"queues {' '.join(options.queues)}")
    lines.append(f"listed {' '.join(sorted(options.listed))}")
    for fault in World(options).schedule:
        nodes = " ".join(fault.nodes)
        lines.append(f"fault {fault.begins_ms}-{fault.ends_ms} {fault.kind} {nodes} ({fault.dice})")
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[str, SimulationOptions]:
    """Parse a scenario into its sentence and its options."""
    sentence, _, rest = text.partition("\n\n")
    values: dict[str, object] = {}
    schedule: list[Fault] = []
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
        elif name == "fault" and (found := FAULT.fullmatch(value)):
            begins, ends, kind, nodes, dice = found.groups()
            schedule.append(
                Fault(len(schedule), kind, int(begins), int(ends), tuple(nodes.split()), int(dice))
            )
        else:
            raise ValueError(f"not a line of a scenario: {line}")
    return sentence, SimulationOptions(**values, schedule=tuple(schedule))  # type: ignore[arg-type]
