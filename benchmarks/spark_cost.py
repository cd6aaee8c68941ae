"""Cost of a range reader at full speed for publishers and consumers of the same queue.

The queue is durable and has leased messages, which the reader reads. One publisher (persistent, confirm
window 1000) and one consumer (prefetch 500, ack every 100) use the queue at full speed, once alone and once
while a reader in a separate process reads the leased range repeatedly.

    python -m benchmarks.spark_cost URI QUEUE FIRST COUNT       the reader; SIGTERM ends it, and it prints
                                                                how many messages it read in how many seconds
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from benchmarks import spark_lines
from benchmarks.brokers import MirrorMQ
from benchmarks.lines import perf
from mirrormq.ranges import range_protocol
from mirrormq.sequences.spans import Span, unpack
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.node_selection import Nodes
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.range_reader import QueueRange, read

QUEUE = "cost"
LEASED = 300_000
SECONDS = 3.0
STOP_DEADLINE_S = 30.0


class Cost(NamedTuple):
    """Messages through the queue per second: medians."""

    alone: float
    beside: float
    """Rate while the reader reads."""
    read: float
    """Rate of the reader; it reads much faster before and after the others run."""


def measure(rounds: int) -> Cost:
    """Measure both in turn on one fresh node; the order changes from round to round."""
    broker = MirrorMQ()
    broker.start()
    try:
        spark_lines.fill(broker.uri, QUEUE, LEASED)
        with RangeClient(Nodes(parse_uris(broker.uri))) as range_client:
            taken = range_client.ask(range_protocol.take(QUEUE, "cost", 1, LEASED))
        [span] = unpack(bytes(taken.body))
        alone, beside, rates = [], [], []
        for number in range(rounds):
            for with_reader in (number % 2 == 0, number % 2 == 1):
                if with_reader:
                    passed, rate = _beside_a_reader(broker, span)
                    beside.append(passed)
                    rates.append(rate)
                else:
                    alone.append(_pass_through(broker))
    finally:
        broker.stop()
    return Cost(*map(statistics.median, (alone, beside, rates)))


def _pass_through(broker: MirrorMQ) -> float:
    arguments = ("--durable", "--persistent", "--keep", "--queue", QUEUE, "--duration", str(SECONDS))
    answer = perf(broker, *arguments)
    return min(answer["confirmed_per_second"], answer["consumed_per_second"])


def _beside_a_reader(broker: MirrorMQ, span: Span) -> tuple[float, float]:
    command = [sys.executable, "-m", __name__, broker.uri, QUEUE, *map(str, span)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()  # the reader has begun
        passed = _pass_through(broker)
    finally:
        reader.terminate()
        said, _ = reader.communicate(timeout=STOP_DEADLINE_S)
    rows, seconds = map(float, said.split())
    return passed, rows / seconds


def read_until_stopped(uri: str, queue: str, span: Span) -> None:
    """Read the range until SIGTERM."""
    stop_signals = []
    signal.signal(signal.SIGTERM, lambda *_: stop_signals.append(True))
    rows, began = 0, time.monotonic()
    print("reading", flush=True)
    with RangeClient(Nodes(parse_uris(uri))) as range_client:
        while not stop_signals:
            for batch in read(range_client, QueueRange(queue, [span], spark_lines.BODY_BYTES)):
                rows += len(batch)
                if stop_signals:
                    break
    print(rows, time.monotonic() - began)


if __name__ == "__main__":
    read_until_stopped(sys.argv[1], sys.argv[2], Span(int(sys.argv[3]), int(sys.argv[4])))
