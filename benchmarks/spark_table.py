"""Queues into Parquet, exactly once, by number of partitions and queues and by size of bodies, with CPU time.

CPU time is that of all processes of a side: driver, Java and Python workers here, the node there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import spark_lines
from benchmarks.brokers import MirrorMQ
from benchmarks.process_stats import total_cpu_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = (1, 2, 4)
QUEUES = (1, 100)
MESSAGES = {100: 200_000, 100 * 1024: 2_000}
"""Messages by size of bodies: 20 MB and 200 MB."""

HEADINGS = [
    "bodies", "queues", "partitions", "messages", "time", "rate", "CPU of Spark per message",
    "CPU of the node per message",
]  # fmt: skip


class Run(NamedTuple):
    """Run of one cell of the table."""

    body_bytes: int
    queues: int
    partitions: int
    messages: int
    elapsed_s: float
    spark_s: float
    node_s: float

    def cells(self) -> list[str]:
        size = "100 KiB" if self.body_bytes > 1024 else f"{self.body_bytes} B"
        rate = self.messages / self.elapsed_s
        each = [seconds / self.messages * 1e6 for seconds in (self.spark_s, self.node_s)]
        shown = [f"{cost:,.1f} µs" for cost in each]
        return [
            size, str(self.queues), str(self.partitions), f"{self.messages:,}", f"{self.elapsed_s:.2f} s",
            f"{rate:,.0f} msg/s, {rate * self.body_bytes / 1e6:,.1f} MB/s", *shown,
        ]  # fmt: skip


@contextmanager
def fresh_node() -> Iterator[MirrorMQ]:
    """Start a fresh node."""
    broker = MirrorMQ()
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def measure(spark: SparkSession, rounds: int, directory: Path, share: float = 1.0) -> list[Run]:
    """Return the fastest of the rounds for each cell; `share` is the part of the messages to use."""
    found = []
    for body_bytes, queues, partitions in product(MESSAGES, QUEUES, PARTITIONS):
        messages = int(MESSAGES[body_bytes] * share)
        runs = []
        for _ in range(rounds):
            runs.append(_run(spark, body_bytes, queues, partitions, messages, directory / "table"))
            shutil.rmtree(directory / "table")
        found.append(min(runs, key=lambda run: run.elapsed_s))
    return found


def _run(
    spark: SparkSession, body_bytes: int, queues: int, partitions: int, messages: int, directory: Path
) -> Run:
    names = [f"table.{number:03}" for number in range(queues)]
    with fresh_node() as node:
        for name in names:
            spark_lines.fill(node.uri, name, messages // queues, body_bytes=body_bytes)
        session = [os.getsid(0)]
        before, node_before, began_s = total_cpu_s(session), total_cpu_s(node.pids), time.monotonic()
        spark_lines.ours_to_parquet(spark, node.uri, ",".join(names), directory, partitions)
        took_s = time.monotonic() - began_s
        spark_s, node_s = total_cpu_s(session) - before, total_cpu_s(node.pids) - node_before
    count = spark.read.parquet(str(directory / "out")).count()
    if count != messages:
        raise RuntimeError(f"{count} of {messages} messages are in Parquet")
    return Run(body_bytes, queues, partitions, messages, took_s, spark_s, node_s)
