"""Lines of the cluster benchmark on three nodes: 100-byte persistent messages, durable queues."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.clusters import MIRROR_ALL, Cluster, wait_until_served
from benchmarks.load_generators import ANSWER_DEADLINE_S, answer, spawn
from benchmarks.takeovers import TAKEOVER_QUEUES, takeover
from mirrormq.client_io.blocking_client import connect
from mirrormq.wire import methods

QUEUE = "bench"
SETTLE_S = 1.0
FAULT_AFTER_S = 2.0
KILL_S = 6.0
FREEZE_S = 12.0
SYNC_MESSAGES = 1_000_000
SYNC_RATE = 1000
SYNC_DEADLINE_S = 300.0
LOAD = ("--durable", "--persistent")

Measure = Callable[[Cluster, float, str], dict[str, float]]
"""Function that runs one round and returns named numbers; the last argument is the kind of queue."""


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """Line of the table."""

    key: str
    work: str
    number: str
    """Measured number that the line shows."""
    unit: str
    measure: Measure
    mirrored: float | None = None
    """Target ratio to mirrored RabbitMQ: at least for rates, at most for times."""
    quorum: float | None = None
    """Target ratio to RabbitMQ's quorum queue."""
    at_most: float | None = None
    """Absolute bound, whatever RabbitMQ's number is."""
    lower_is_better: bool = False
    rounds: int = 3
    ours_only: bool = False
    """Whether RabbitMQ is not measured, because it would take minutes (its net_ticktime is 60 s)."""


def perf_command(cluster: Cluster, publish: list[int], consume: list[int], *arguments: str) -> list[str]:
    """Return the command of the load generator, which publishes and consumes through the given nodes."""
    uris = [part for index in publish for part in ("--uri", cluster.uri(index))]
    uris += [part for index in consume for part in ("--consume-uri", cluster.uri(index))]
    return [sys.executable, "-m", "mirrormq.perf", *uris, "--queue", QUEUE, "--json", *LOAD, *arguments]


def perf(cluster: Cluster, publish: list[int], consume: list[int], *arguments: str) -> dict[str, float]:
    """Run the load generator in a separate process."""
    return answer(cluster, spawn(perf_command(cluster, publish, consume, *arguments)))


def declare(cluster: Cluster, index: int, kind: str) -> None:
    """Declare the queue, with its master on the client's node."""
    client = connect(cluster.uri(index), ANSWER_DEADLINE_S)
    client.declare_queue(QUEUE, durable=True, kind=kind)
    client.close()
    time.sleep(SETTLE_S)


def drop(cluster: Cluster, index: int) -> None:
    """Delete the queue before the next round."""
    client = connect(cluster.uri(index), ANSWER_DEADLINE_S)
    client.call(methods.encode_queue_delete(QUEUE))
    client.close()


def throughput(publish: int, consume: int) -> Measure:
    """Publish and consume; the slower rate counts. The master is on the first node."""

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
    """Spread queues, publishers and consumers over all nodes."""
    everywhere = [0, 1, 2]
    many = ("--queues", "30", "--producers", "10", "--consumers", "10", "--queue-type", kind)
    found = perf(cluster, everywhere, everywhere, "--duration", str(seconds), *many)
    return {"rate": min(found["confirmed_per_second"], found["consumed_per_second"])}


def one_at_a_time(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """Measure one publisher that waits for each confirm."""
    declare(cluster, 0, kind)
    try:
        alone = ("--confirm-window", "1", "--duration", str(seconds), "--queue-type", kind, "--keep")
        latency: object = perf(cluster, [0], [0], *alone, "--ack-every", "1")["confirm_latency_ms"]
        assert isinstance(latency, dict)
        return {"p50": float(latency["p50"])}
    finally:
        drop(cluster, 0)


def fault(number: int, duration_s: float) -> Measure:
    """Signal the master's node under load; clients are on the other two."""

    def measure(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
        declare(cluster, 0, kind)
        command = perf_command(cluster, [1], [2], "--duration", str(duration_s), "--keep", "--rate", "2000")
        process = spawn([*command, "--queue-type", kind, "--timeout", "120"])
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
    """Return the number of synchronised mirrors of the queue."""
    column = "synchronised_slave_pids"
    listed = json.loads(cluster.control("list_queues", "name", column, "--formatter", "json"))
    return next((len(row[column] or []) for row in listed if row["name"] == QUEUE), 0)


def joining(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """Add two mirrors to a queue of a million messages while a publisher continues at a steady rate."""
    cluster.control("clear_policy", "all")
    try:
        declare(cluster, 0, kind)
        perf(cluster, [0], [0], "--mode", "publish", "--messages", str(SYNC_MESSAGES))
        steady = ("--mode", "publish", "--rate", str(SYNC_RATE), "--duration", str(SYNC_DEADLINE_S))
        process = spawn(perf_command(cluster, [0], [0], *steady))
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
        "kill -9 of the master under load: longest gap in confirms on other nodes",
        "gap",
        "ms",
        fault(signal.SIGKILL, KILL_S),
        1,
        lower_is_better=True,
    ),
    ClusterLine(
        "takeover",
        f"kill -9 of a node with {TAKEOVER_QUEUES:,} masters: until every queue has confirmed a message",
        "gap",
        "ms",
        takeover,
        1,
        at_most=500,
        lower_is_better=True,
        rounds=1,
    ),
    ClusterLine(
        "bystander",
        "the same kill: longest gap in confirms of a queue without a replica on that node, 1,000/s",
        "bystander",
        "ms",
        takeover,
        at_most=50,
        lower_is_better=True,
        rounds=1,
    ),
    ClusterLine(
        "freeze",
        "master frozen (SIGSTOP): longest gap in confirms",
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
    ClusterLine(
        "sync-rate",
        "two mirrors join a queue of 1,000,000: messages synchronised",
        "rate",
        "msg/s",
        joining,
        1,
        rounds=1,
    ),
)
