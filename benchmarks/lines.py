"""Lines of the single-node benchmark: workload, measured number, target."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.brokers import Broker
from mirrormq.client_io.blocking_client import connect
from mirrormq.wire import methods

QUEUE = "bench"
BACKLOG = 200_000
CONNECTIONS = 200
ANSWER_DEADLINE_S = 180.0

Number = float
Measure = Callable[[Broker, float], Number]
"""Function that runs one round of the given seconds on an otherwise idle broker."""


@dataclass(frozen=True, slots=True)
class Line:
    """Line of the table."""

    key: str
    work: str
    unit: str
    target: float | None
    """Target ratio to RabbitMQ: at least for rates, at most for times. None: no target."""
    measure: Measure
    lower_is_better: bool = False
    at_most: float | None = None
    """Absolute bound of MirrorMQ's number, whatever RabbitMQ's is."""
    rounds: int | None = None
    """Most rounds, where one is enough or takes long."""

    def ratio(self, rabbitmq: Number, mirrormq: Number) -> float:
        """Return MirrorMQ's number divided by RabbitMQ's."""
        return mirrormq / rabbitmq if rabbitmq else 0.0

    def met(self, ratio: float | None, mirrormq: Number) -> bool | None:
        """Whether all targets are met; None if there is none to judge."""
        checks = []
        if self.target is not None and ratio is not None:
            checks.append(ratio <= self.target if self.lower_is_better else ratio >= self.target)
        if self.at_most is not None:
            checks.append(mirrormq <= self.at_most)
        return all(checks) if checks else None

    def promise(self) -> str:
        """Return the targets as text."""
        sign = "≤" if self.lower_is_better else "≥"
        promises = [f"{sign} {self.target:g} ×"] if self.target is not None else []
        promises += [f"≤ {self.at_most:g} {self.unit}"] if self.at_most is not None else []
        return ", ".join(promises) or "–"


def perf(broker: Broker, *arguments: str) -> dict[str, float]:
    """Run the load generator in a separate process and parse its report."""
    command = [
        sys.executable,
        "-m",
        "mirrormq.perf",
        "--uri",
        broker.uri,
        "--queue",
        QUEUE,
        "--json",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(f"{broker.name}: {done.stderr.strip()}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def drop_queue(broker: Broker) -> None:
    """Delete the queue before the next round; deleting an absent queue is no error."""
    client = connect(broker.uri, ANSWER_DEADLINE_S)
    client.call(methods.encode_queue_delete(QUEUE))
    client.close()


def publish_only(*arguments: str) -> Measure:
    """Measure from the first byte until the broker replied to a request behind the last message."""

    def measure(broker: Broker, seconds: float) -> Number:
        try:
            mode = ("--mode", "publish", "--confirm-window", "0", "--duration", str(seconds))
            return perf(broker, *mode, *arguments)["published_per_second"]
        finally:
            drop_queue(broker)

    return measure


def publish_and_consume(*arguments: str) -> Measure:
    """Publish and consume; the slower rate counts."""

    def measure(broker: Broker, seconds: float) -> Number:
        answer = perf(broker, "--duration", str(seconds), *arguments)
        return min(answer["confirmed_per_second"], answer["consumed_per_second"])

    return measure


def consume_backlog(broker: Broker, seconds: float) -> Number:
    """Measure from basic.consume to the last message of the backlog, without filling the queue."""
    try:
        perf(broker, "--mode", "publish", "--messages", str(BACKLOG))
        return perf(broker, "--mode", "consume", "--messages", str(BACKLOG))["consumed_per_second"]
    finally:
        drop_queue(broker)


def many_connections(broker: Broker, seconds: float) -> Number:
    """Measure connections that publish to themselves and wait: the 99th percentile of publish to deliver."""
    arguments = ("--mode", "latency", "--connections", str(CONNECTIONS), "--duration", str(seconds))
    latency: object = perf(broker, *arguments)["deliver_latency_ms"]
    assert isinstance(latency, dict)
    return float(latency["p99"])


def start(broker: Broker, seconds: float) -> Number:
    """Measure the start of a fresh node of the same kind, from the command to a client's open channel."""
    fresh = type(broker)()
    try:
        fresh.start()
        return fresh.start_s
    finally:
        fresh.stop()


ACKS = "acks (prefetch 500, ack every 100), confirm window 1000"

LINES = (
    Line("publish", "publish only, transient, no confirms", "msg/s", 8, publish_only()),
    Line("transient", f"publish + consume, transient, {ACKS}", "msg/s", 5, publish_and_consume()),
    Line(
        "persistent",
        "publish + consume, persistent, durable queue, acks as above",
        "msg/s",
        5,
        publish_and_consume("--durable", "--persistent"),
    ),
    Line("backlog", f"consume only, from a backlog of {BACKLOG:,}", "msg/s", 4, consume_backlog),
    Line(
        "connections",
        f"{CONNECTIONS} connections, one message in flight each, publish→deliver p99",
        "ms",
        1,
        many_connections,
        lower_is_better=True,
    ),
    Line(
        "1k", "publish + consume, 1 KiB bodies, transient", "msg/s", 3, publish_and_consume("--size", "1024")
    ),
    Line(
        "64k",
        "publish + consume, 64 KiB bodies, transient",
        "msg/s",
        1.5,
        publish_and_consume("--size", "65536"),
    ),
    # MirrorMQ handles runs of equally sized publishes as a batch; these two lines measure it without that.
    Line(
        "varied-publish",
        "publish only, as above, bodies of 50 to 150 bytes",
        "msg/s",
        None,
        publish_only("--vary"),
    ),
    Line(
        "varied-transient",
        "publish + consume, transient, as above, bodies of 50 to 150 bytes",
        "msg/s",
        None,
        publish_and_consume("--vary"),
    ),
    Line("start", "node start to first client served", "s", 0.25, start, lower_is_better=True, at_most=0.6),
)
