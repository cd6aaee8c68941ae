"""What goes wrong, and when: a schedule drawn from the seed before anything happens.

Each fault begins, lasts and ends. Drawing them in advance keeps them apart from everything else that is left
to chance, so a schedule can be cut down to the faults that matter and played again (`without`).
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
"""Each kind and how often it is drawn.

kill, power    a process dies, or its machine; started again when the fault ends
torn           a machine dies in the middle of one of its next writes
blackout       all machines lose their power at once; started again one after the other
freeze         a node does nothing for a while
partition      two groups of nodes do not hear each other
one-way        one direction between two nodes carries nothing
clog           one direction is late by seconds
reset          a connection breaks
slow-disk      each turn of a node takes its time
stop           a node is stopped in good order, and started again
policy         the policy of the queues changes
move           a queue's master is moved
leave          a node leaves the cluster, and joins it again with an empty disk
disk           a node stops; its journal is lost or garbled, or its disk is replaced by an older copy
disks          the same while every node is stopped at once
shutdown       all nodes are stopped in good order, one after the other; the disk of the last one fails so
"""

EVERY_NODE = ("blackout", "disks", "shutdown")
"""Faults that concern all nodes."""

LASTS_MS = (300, 3000, 5000, 9000)
"""A fault lasts up to one of these: shorter than the failure detector's patience, about it, well beyond."""


class Fault(NamedTuple):
    """Something that goes wrong."""

    number: int
    kind: str
    begins_ms: int
    ends_ms: int
    nodes: tuple[str, ...]
    """Whom it concerns; for a partition, one side."""
    dice: int
    """For whatever else is to be chosen."""

    def __str__(self) -> str:
        return f"#{self.number} {self.begins_ms}–{self.ends_ms} ms: {self.kind} {' '.join(self.nodes)}"


def draw(choice: random.Random, names: Sequence[str], until_ms: int, count: int) -> list[Fault]:
    """A schedule."""
    faults = []
    for number in range(count):
        kind = choice.choices(list(KINDS), list(KINDS.values()))[0]
        begins = choice.randrange(until_ms)
        ends = begins + 1 + choice.randrange(choice.choice(LASTS_MS))
        most = max(1, len(names) - 1) if kind == "partition" else min(2, len(names))
        count_concerned = choice.randint(1, most) if kind == "partition" else most
        nodes = choice.sample(list(names), len(names) if kind in EVERY_NODE else count_concerned)
        faults.append(
            Fault(number, kind, begins, min(ends, until_ms), tuple(nodes), choice.randrange(1 << 30))
        )
    return sorted(faults, key=lambda fault: (fault.begins_ms, fault.number))


def without(faults: Sequence[Fault], numbers: set[int]) -> list[Fault]:
    """The same schedule with some faults left out."""
    return [fault for fault in faults if fault.number not in numbers]
