"""Fault injector for a cluster of processes: one fault at a time, each undone before the next, drawn from a
seed.

A fault always ends and never hits two nodes on purpose; an operator can produce that by hand. The history
holds the start and the end of each fault.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mirrormq.history import HistoryWriter
from mirrormq.testing import Cluster
from mirrormq.testing.partitioned_cluster import PartitionedCluster

KINDS = ("kill", "freeze", "restart", "partition", "policy")

POLICIES = (
    '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic","ha-promote-on-failure":"when-synced"}',
    '{"ha-mode":"all","ha-sync-mode":"automatic","ha-promote-on-failure":"when-synced"}',
)
"""Policies of a policy fault. A run starts with the last one. An unsynchronised mirror is never promoted:
that would be a loss by the operator's choice, and the run looks for other losses."""

SERVES_AGAIN_S = 60.0
"""Time limit for a node to serve again after a fault: many times what it needs."""

TRY_AGAIN_S = 0.5


class FaultSpan(NamedTuple):
    """Durations of faults and of the calm between them, each random between two bounds."""

    fault_s: tuple[float, float] = (2.0, 8.0)
    calm_s: tuple[float, float] = (1.0, 5.0)


class ProcessFaults:
    """Fault schedule, executed on a running cluster."""

    def __init__(
        self, cluster: Cluster, nodes: int, kinds: tuple[str, ...], seed: int, history: HistoryWriter,
        span: FaultSpan, report: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._nodes = nodes
        self._kinds = kinds
        self._random = random.Random(seed)
        self._history = history
        self._span = span
        self._report = report

    def run(self, until_s: float, idle: Callable[[float], None]) -> int:
        """Inject faults until a moment of the monotonic clock; `idle(seconds)` waits. Return the number of
        faults."""
        count = 0
        idle(self._random.uniform(*self._span.calm_s))
        while self._kinds and time.monotonic() < until_s:
            kind = self._random.choice(self._kinds)
            victim = self._random.randrange(self._nodes)
            lasts_s = self._random.uniform(*self._span.fault_s)
            steps = getattr(self, f"_{kind}")(victim, lasts_s)
            name = self._cluster.name(victim)
            node = None if kind == "policy" else name
            self._report(f"{kind} {node or ''} for {lasts_s:.1f} s")
            number = self._history.fault_began(kind, node, detail=f"{lasts_s:.1f} s")
            for pause_s in steps:
                idle(pause_s)
            self._history.fault_ended(number)
            count += 1
            idle(self._random.uniform(*self._span.calm_s))
        return count

    def _kill(self, victim: int, lasts_s: float) -> Iterator[float]:
        self._cluster.kill(victim)
        yield lasts_s
        self._cluster.start(victim)

    def _freeze(self, victim: int, lasts_s: float) -> Iterator[float]:
        self._cluster.freeze(victim)
        yield lasts_s
        self._cluster.thaw(victim)

    def _restart(self, victim: int, lasts_s: float) -> Iterator[float]:
        self._cluster.stop(victim)
        yield lasts_s
        self._cluster.start(victim)

    def _partition(self, victim: int, lasts_s: float) -> Iterator[float]:
        assert isinstance(self._cluster, PartitionedCluster)
        self._cluster.part([n for n in range(self._nodes) if n != victim], [victim])
        yield lasts_s
        self._cluster.heal()

    def _policy(self, victim: int, lasts_s: float) -> Iterator[float]:
        for definition in POLICIES:
            self._set_policy(victim, definition)
            yield lasts_s / len(POLICIES)

    def _set_policy(self, node: int, definition: str) -> None:
        """Set a policy; retry, because a node that resumed or left a partition may not serve yet."""
        deadline = time.monotonic() + SERVES_AGAIN_S
        while True:
            try:
                self._cluster.ctl("set_policy", "chaos", ".*", definition, node=node)
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(TRY_AGAIN_S)
