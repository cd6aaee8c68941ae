"""What a reader at full speed costs those who publish to and consume from the same queue.

The queue is durable and has leased messages, which are what is read. Beside them one publisher (persistent,
confirm window 1000) and one consumer (prefetch 500, ack every 100) pass messages through it as fast as they
can, once alone and once while a reader in a process of its own reads the leased range again and again.

    python -m benchmarks.spark_cost URI QUEUE FIRST COUNT       the reader; SIGTERM ends it, and it says
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
from mirrormq.ranges import questions
from mirrormq.ranges.stretches import Stretch, unpack
from mirrormq.spark.client.address import parse_uris
from mirrormq.spark.client.asking import Asker
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.client.reading import read

QUEUE = "cost"
LEASED = 300_000
SECONDS = 3.0
STOP_DEADLINE_S = 30.0


class Cost(NamedTuple):
    """Messages that went through the queue in a second: medians."""

    alone: float
    beside: float
    """While the reader reads."""
    read: float
    """What the reader had in a second; before and after the others work it reads much faster."""


def measure(rounds: int) -> Cost:
    """Both, in turn, on one node of its own; which comes first changes from round to round."""
    broker = MirrorMQ()
    broker.start()
    try:
        spark_lines.fill(broker.uri, QUEUE, LEASED)
        with Asker(Nodes(parse_uris(broker.uri))) as asker:
            taken = asker.ask(questions.take(QUEUE, "cost", 1, LEASED))
        [stretch] = unpack(bytes(taken.body))
        alone, beside, rates = [], [], []
        for number in range(rounds):
            for with_reader in (number % 2 == 0, number % 2 == 1):
                if with_reader:
                    passed, rate = _beside_a_reader(broker, stretch)
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


def _beside_a_reader(broker: MirrorMQ, stretch: Stretch) -> tuple[float, float]:
    command = [sys.executable, "-m", __name__, broker.uri, QUEUE, *map(str, stretch)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()  # it has begun
        passed = _pass_through(broker)
    finally:
        reader.terminate()
        said, _ = reader.communicate(timeout=STOP_DEADLINE_S)
    rows, seconds = map(float, said.split())
    return passed, rows / seconds


def read_until_told(uri: str, queue: str, stretch: Stretch) -> None:
    """The reader."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    rows, began = 0, time.monotonic()
    print("reading", flush=True)
    with Asker(Nodes(parse_uris(uri))) as asker:
        while not told:
            for batch in read(asker, queue, [stretch], spark_lines.BODY_BYTES):
                rows += len(batch)
                if told:
                    break
    print(rows, time.monotonic() - began)


if __name__ == "__main__":
    read_until_told(sys.argv[1], sys.argv[2], (int(sys.argv[3]), int(sys.argv[4])))
