"""Chaos run: start a cluster, apply load and faults, heal it, drain its queues, judge the history."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mirrormq.chaos.load_clients import ConsumingClient, LoadClient, LoadNode, PublishingClient
from mirrormq.chaos.process_faults import POLICIES, FaultSpan, ProcessFaults
from mirrormq.chaos.verdict import ChaosVerdict, judge
from mirrormq.client_io.client_socket import ClientError
from mirrormq.history import HistoryWriter, SteadyClock
from mirrormq.testing import Cluster
from mirrormq.testing.partitioned_cluster import PartitionedCluster

TICK_S = 0.5
DRAIN_TIMEOUT_S = 120.0
"""Time to drain after the last fault: rings reform, mirrors synchronise, unacked messages are redelivered."""
QUIET_S = 3.0
"""Time that all queues must stay empty before they count as drained."""


CALM = FaultSpan()


class ChaosError(Exception):
    """Run cannot start; the text is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Options of a run."""

    history: Path
    nodes: int = 3
    duration_s: float = 60.0
    queues: int = 2
    publishers: int = 3
    consumers: int = 3
    rate: float = 500.0
    window: int = 200
    kinds: tuple[str, ...] = ("kill", "freeze", "restart", "policy")
    seed: int = 0
    conf: str = ""
    span: FaultSpan = CALM


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """Result of a run."""

    verdict: ChaosVerdict
    faults: int
    left: dict[str, int]
    """Messages that stayed in queues, by queue; empty after a sound run."""


Progress = Callable[[float, str], None]
"""Callback with the fraction done and a status text."""


class ChaosRun:
    """Clients and cluster of one run."""

    def __init__(self, options: ChaosOptions, progress: Progress) -> None:
        self.options = options
        self._progress = progress
        self._clock = SteadyClock()
        self._publishers: list[PublishingClient] = []
        self._consumers: list[ConsumingClient] = []
        self._queues = [f"chaos-{number}" for number in range(options.queues)]
        self._begin_s = 0.0

    def run(self) -> ChaosOutcome:
        """Run everything, from the start of the cluster to the verdict."""
        options = self.options
        self._make_directory()
        kind = PartitionedCluster if "partition" in options.kinds else Cluster
        with kind(nodes=options.nodes, conf=options.conf) as cluster:
            nodes = [LoadNode(cluster.name(n), cluster.uri(n)) for n in range(options.nodes)]
            cluster.ctl("set_policy", "chaos", ".*", POLICIES[-1])
            self._declare(nodes)
            with HistoryWriter(options.history, "faults", clock=self._clock) as history:
                self._start_clients(nodes)
                faults = self._inject_faults(cluster, history)
                for publisher in self._publishers:
                    publisher.stop()
                left = self._drain(nodes, history)
            for consumer in self._consumers:
                consumer.stop()
        return ChaosOutcome(judge(options.history), faults, left)

    def _make_directory(self) -> None:
        history = self.options.history
        try:
            history.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ChaosError(
                f"{history} cannot be written: {error.strerror}; choose another directory."
            ) from None
        if not os.access(history, os.W_OK):
            raise ChaosError(f"{history} is not writable: choose another directory.")
        if any(history.glob("*.parquet")):
            raise ChaosError(f"{history} already holds a history: choose an empty directory.")

    def _declare(self, nodes: list[LoadNode]) -> None:
        for number, queue in enumerate(self._queues):
            client = nodes[number % len(nodes)].connect()
            client.declare_queue(queue, durable=True)
            client.drop()

    def _start_clients(self, nodes: list[LoadNode]) -> None:
        options = self.options
        for number in range(options.publishers):
            queue = self._queues[number % options.queues]
            self._publishers.append(
                PublishingClient(
                    number, queue, nodes, options.history, self._clock, rate=options.rate,
                    window=options.window,
                )
            )  # fmt: skip
        for number in range(max(options.consumers, options.queues)):
            queue = self._queues[number % options.queues]
            self._consumers.append(ConsumingClient(number, queue, nodes, options.history, self._clock))
        load_clients: list[LoadClient] = [*self._consumers, *self._publishers]
        for load_client in load_clients:
            load_client.start()

    def _inject_faults(self, cluster: Cluster, history: HistoryWriter) -> int:
        options = self.options
        self._begin_s = time.monotonic()
        faults = ProcessFaults(
            cluster, options.nodes, options.kinds, options.seed, history, options.span, self._report
        )
        count = faults.run(self._begin_s + options.duration_s, self._idle)
        self._idle(max(0.0, self._begin_s + options.duration_s - time.monotonic()))
        return count

    def _idle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._report("")
            time.sleep(min(TICK_S, left))

    def _report(self, what: str) -> None:
        part = min(1.0, (time.monotonic() - self._begin_s) / self.options.duration_s)
        confirmed = sum(publisher.confirmed for publisher in self._publishers)
        delivered = sum(consumer.delivered for consumer in self._consumers)
        self._progress(part, what or f"confirmed {confirmed:,}, delivered {delivered:,}")

    def _drain(self, nodes: list[LoadNode], history: HistoryWriter) -> dict[str, int]:
        """Wait until every queue is empty and deliveries have stopped."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        quiet_since, delivered = time.monotonic(), -1
        while time.monotonic() < deadline and time.monotonic() - quiet_since < QUIET_S:
            now_delivered = sum(consumer.delivered for consumer in self._consumers)
            if now_delivered != delivered or any(self._left(nodes).values()):
                quiet_since, delivered = time.monotonic(), now_delivered
            self._report("")
            time.sleep(TICK_S)
        left = self._left(nodes)
        for queue, count in left.items():
            history.drained(queue, left=count)
        return {queue: count for queue, count in left.items() if count}

    def _left(self, nodes: list[LoadNode]) -> dict[str, int]:
        """Return ready messages by queue, as the first reachable node reports; an unreachable queue counts as
        not empty."""
        found = dict.fromkeys(self._queues, 1)
        for queue in self._queues:
            for node in nodes:
                try:
                    client = node.connect()
                    found[queue] = client.declare_queue(queue, durable=True, passive=True)
                    client.drop()
                except ClientError:
                    continue
                break
        return found
