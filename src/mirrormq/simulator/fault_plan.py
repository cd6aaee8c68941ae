"""Fault plan: a schedule of faults, drawn from the seed before the run starts.

Each fault begins, lasts and ends. Drawing them in advance separates them from all other random choices, so a
schedule can be reduced to the faults that matter and run again (`without`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

KINDS = {
    "kill": 6,
    "power": 4,
    "torn": 4,
    "blackout": 2,
    "freeze": 4,
    "partition": 6,
    "one-way": 3,
    "clog": 3,
    "reset": 4,
    "slow-disk": 2,
    "stop": 2,
    "policy": 3,
    "move": 2,
    "leave": 2,
    "disk": 3,
    "disks": 3,
    "shutdown": 3,
}
"""Weight of each kind of fault in the draw.

kill, power    a process dies, or its machine; started again when the fault ends
torn           a machine dies in the middle of one of its next writes
blackout       all machines lose their power at once; started again one after the other
freeze         a node does nothing for a while
partition      two groups of nodes cannot reach each other
one-way        one direction between two nodes carries nothing
clog           one direction is late by seconds
reset          a connection breaks
slow-disk      each turn of a node is slow
stop           a node is stopped in good order, and started again
policy         the policy of the queues changes
move           a queue's master is moved
leave          a node leaves the cluster, and joins it again with an empty disk
disk           a node stops; its journal is lost or damaged, or its disk is replaced by an older copy
disks          the fault `disk` while every node is stopped at once
shutdown       all nodes are stopped in good order, one by one; the disk of the last one fails as in `disk`
"""

UPGRADE = "upgrade"
"""Kind of the fault that stops a node of the oldest protocol version, and starts it with the present one
(`upgrades`)."""

FORKS = (
    "partition",
    "one-way",
    "kill",
    "power",
    "torn",
    "blackout",
    "freeze",
    "reset",
    "stop",
    "move",
    "disk",
)
"""Kinds of faults that divide a cluster, or change what a side of it has."""

EVERY_NODE = ("blackout", "disks", "shutdown")
"""Faults that concern all nodes."""

LASTS_MS = (300, 3000, 5000, 9000)
"""Maximum durations of faults: shorter than the failure detector's timeout, about as long, and much
longer."""

RESTART_MS = 2000
"""Maximum duration of an upgrade."""


class Fault(NamedTuple):
    """Fault with its time, kind and nodes."""

    number: int
    kind: str
    begins_ms: int
    ends_ms: int
    nodes: tuple[str, ...]
    """Nodes that the fault concerns; for a partition, one side."""
    dice: int
    """Random number for all further choices."""

    def __str__(self) -> str:
        return f"#{self.number} {self.begins_ms}–{self.ends_ms} ms: {self.kind} {' '.join(self.nodes)}"


def draw(
    choice: random.Random,
    names: Sequence[str],
    until_ms: int,
    count: int,
    kinds: Sequence[str] = tuple(KINDS),
) -> list[Fault]:
    """Draw a schedule of faults of the given kinds."""
    faults = []
    for number in range(count):
        kind = choice.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        begins = choice.randrange(until_ms)
        ends = begins + 1 + choice.randrange(choice.choice(LASTS_MS))
        most = max(1, len(names) - 1) if kind == "partition" else min(2, len(names))
        count_concerned = choice.randint(1, most) if kind == "partition" else most
        nodes = choice.sample(list(names), len(names) if kind in EVERY_NODE else count_concerned)
        faults.append(
            Fault(number, kind, begins, min(ends, until_ms), tuple(nodes), choice.randrange(1 << 30))
        )
    return sorted(faults, key=lambda fault: (fault.begins_ms, fault.number))


def upgrades(choice: random.Random, names: Sequence[str], until_ms: int, first: int) -> list[Fault]:
    """Draw the upgrades of a cluster whose nodes begin with the oldest protocol version, one after the
    other in a drawn order. `first` is the number of the first one."""
    moments = sorted(choice.randrange(until_ms) for _ in names)
    order = choice.sample(list(names), len(names))
    return [
        Fault(
            first + place, UPGRADE, begins, min(begins + 1 + choice.randrange(RESTART_MS), until_ms),
            (name,), choice.randrange(1 << 30),
        )
        for place, (name, begins) in enumerate(zip(order, moments, strict=True))
    ]  # fmt: skip


def without(faults: Sequence[Fault], numbers: set[int]) -> list[Fault]:
    """Return the schedule without some faults."""
    return [fault for fault in faults if fault.number not in numbers]
