"""What is done to a cluster of three, and which number is taken: 100-byte persistent messages, durable
queues."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.clusters import MIRROR_ALL, Cluster, wait_until_served
from mirrormq.client_io.blocking_client import connect
from mirrormq.wire import methods

QUEUE = "bench"
ANSWER_DEADLINE_S = 400.0
SETTLE_S = 1.0
FAULT_AFTER_S = 2.0
KILL_S = 6.0
FREEZE_S = 12.0
SYNC_MESSAGES = 1_000_000
SYNC_RATE = 1000
SYNC_DEADLINE_S = 300.0
LOAD = ("--durable", "--persistent")

Measure = Callable[[Cluster, float, str], dict[str, float]]
"""Runs one round; the last argument is the kind of queue. Gives named numbers."""


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """One line of the table."""

    key: str
    work: str
    number: str
    """Which of the measured numbers counts."""
    unit: str
    measure: Measure
    mirrored: float | None = None
    """What ours must be in mirrored RabbitMQ's: at least for rates, at most for times."""
    quorum: float | None = None
    """The same beside RabbitMQ's quorum queue."""
    at_most: float | None = None
    """A bound by itself, whatever RabbitMQ does."""
    lower_is_better: bool = False
    rounds: int = 3
    ours_only: bool = False
    """RabbitMQ would take minutes (its net_ticktime is 60 s); its number is known and not measured."""


def perf_command(cluster: Cluster, publish: list[int], consume: list[int], *arguments: str) -> list[str]:
    """The load generator, publishing through some nodes and consuming through others."""
    uris = [part for index in publish for part in ("--uri", cluster.uri(index))]
    uris += [part for index in consume for part in ("--consume-uri", cluster.uri(index))]
    return [sys.executable, "-m", "mirrormq.perf", *uris, "--queue", QUEUE, "--json", *LOAD, *arguments]


def answer(cluster: Cluster, process: subprocess.Popen[str]) -> dict[str, float]:
    """Wait for the generator and read what it says."""
    output, errors = process.communicate(timeout=ANSWER_DEADLINE_S)
    if process.returncode:
        raise RuntimeError(f"{cluster.name}: {errors.strip()}")
    found: dict[str, float] = json.loads(output)
    return found


def perf(cluster: Cluster, publish: list[int], consume: list[int], *arguments: str) -> dict[str, float]:
    """Run the load generator in a process of its own."""
    return answer(cluster, _spawn(perf_command(cluster, publish, consume, *arguments)))


def _spawn(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def declare(cluster: Cluster, index: int, kind: str) -> None:
    """Make the queue, with its master where the client is."""
    client = connect(cluster.uri(index), ANSWER_DEADLINE_S)
    client.declare_queue(QUEUE, durable=True, kind=kind)
    client.close()
    time.sleep(SETTLE_S)


def drop(cluster: Cluster, index: int) -> None:
    """Leave nothing behind for the next round."""
    client = connect(cluster.uri(index), ANSWER_DEADLINE_S)
    client.call(methods.encode_queue_delete(QUEUE))
    client.close()


def throughput(publish: int, consume: int) -> Measure:
    """Publish and consume; the slower end counts. The master is on the first node."""

    def measure(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
        declare(cluster, 0, kind)
        try:
            found = perf(
                cluster, [publish], [consume], "--duration", str(seconds), "--queue-type", kind, "--keep"
            )
            return {"rate": min(found["confirmed_per_second"], found["consumed_per_second"])}
        finally:
            drop(cluster, 0)

    return measure


def thirty_queues(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """Queues, publishers and consumers spread over all nodes."""
    everywhere = [0, 1, 2]
    many = ("--queues", "30", "--producers", "10", "--consumers", "10", "--queue-type", kind)
    found = perf(cluster, everywhere, everywhere, "--duration", str(seconds), *many)
    return {"rate": min(found["confirmed_per_second"], found["consumed_per_second"])}


def one_at_a_time(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """One publisher that waits for each confirm."""
    declare(cluster, 0, kind)
    try:
        alone = ("--confirm-window", "1", "--duration", str(seconds), "--queue-type", kind, "--keep")
        latency: object = perf(cluster, [0], [0], *alone, "--ack-every", "1")["confirm_latency_ms"]
        assert isinstance(latency, dict)
        return {"p50": float(latency["p50"])}
    finally:
        drop(cluster, 0)


def fault(number: int, duration_s: float) -> Measure:
    """Hurt the master's node under load; clients are on the other two."""

    def measure(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
        declare(cluster, 0, kind)
        command = perf_command(cluster, [1], [2], "--duration", str(duration_s), "--keep", "--rate", "2000")
        process = _spawn([*command, "--queue-type", kind, "--timeout", "120"])
        try:
            time.sleep(FAULT_AFTER_S)
            cluster.signal(0, number)
            return {"gap": answer(cluster, process)["longest_confirm_gap_ms"]}
        finally:
            process.kill()
            if number == signal.SIGKILL:
                cluster.restart(0)
            else:
                cluster.signal(0, signal.SIGCONT)
                wait_until_served(cluster.uri(0))
            time.sleep(SETTLE_S)
            drop(cluster, 1)

    return measure


def synchronised(cluster: Cluster) -> int:
    """How many mirrors of the queue hold everything."""
    column = "synchronised_slave_pids"
    listed = json.loads(cluster.control("list_queues", "name", column, "--formatter", "json"))
    return next((len(row[column] or []) for row in listed if row["name"] == QUEUE), 0)


def joining(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """A million messages in a queue that gets two mirrors while a publisher goes on at a steady rate."""
    cluster.control("clear_policy", "all")
    try:
        declare(cluster, 0, kind)
        perf(cluster, [0], [0], "--mode", "publish", "--messages", str(SYNC_MESSAGES))
        steady = ("--mode", "publish", "--rate", str(SYNC_RATE), "--duration", str(SYNC_DEADLINE_S))
        process = _spawn(perf_command(cluster, [0], [0], *steady))
        try:
            time.sleep(FAULT_AFTER_S)
            begin = time.monotonic()
            cluster.control("set_policy", "all", ".*", json.dumps(MIRROR_ALL), "--apply-to", "queues")
            while synchronised(cluster) < 2:
                if time.monotonic() - begin > SYNC_DEADLINE_S:
                    raise RuntimeError(f"{cluster.name}: no synchronised mirrors after {SYNC_DEADLINE_S:g} s")
                time.sleep(0.1)
            took = time.monotonic() - begin
            process.send_signal(signal.SIGINT)
            gap = answer(cluster, process)["longest_confirm_gap_ms"]
            return {"gap": gap, "rate": 2 * SYNC_MESSAGES / took}
        finally:
            process.kill()
            drop(cluster, 0)
    finally:
        cluster.control("set_policy", "all", ".*", json.dumps(MIRROR_ALL), "--apply-to", "queues")


CLUSTER_LINES = (
    ClusterLine(
        "master", "publish + consume through the master's node", "rate", "msg/s", throughput(0, 0), 6, 2.5
    ),
    ClusterLine(
        "mirrors", "publish on a mirror's node, consume on the other's", "rate", "msg/s", throughput(1, 2), 5
    ),
    ClusterLine(
        "thirty",
        "30 queues over the nodes, 10 publishers, 10 consumers",
        "rate",
        "msg/s",
        thirty_queues,
        5,
    ),
    ClusterLine(
        "window1",
        "one publisher, confirm window 1: p50 of the confirm",
        "p50",
        "ms",
        one_at_a_time,
        1,
        lower_is_better=True,
    ),
    ClusterLine(
        "kill",
        "kill -9 of the master under load: longest gap in confirms elsewhere",
        "gap",
        "ms",
        fault(signal.SIGKILL, KILL_S),
        1,
        lower_is_better=True,
    ),
    ClusterLine(
        "freeze",
        "master frozen (SIGSTOP): the same gap",
        "gap",
        "ms",
        fault(signal.SIGSTOP, FREEZE_S),
        at_most=5000,
        lower_is_better=True,
        rounds=2,
        ours_only=True,
    ),
    ClusterLine(
        "sync-gap",
        "two mirrors join a queue of 1,000,000 under load: longest gap in confirms",
        "gap",
        "ms",
        joining,
        at_most=300,
        lower_is_better=True,
        rounds=1,
    ),
    ClusterLine("sync-rate", "the same: messages brought to mirrors", "rate", "msg/s", joining, 1, rounds=1),
)
