"""Spark benchmark, third part of `make bench`: Spark on queues, compared with pika and with files."""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import textwrap
from collections import defaultdict
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import spark_batches, spark_cost, spark_lines, spark_reader, spark_table
from benchmarks.machine import describe, table_lines, today, write_table
from benchmarks.spark_batches import BatchCost
from benchmarks.spark_cost import Cost
from benchmarks.spark_lines import CELERY, IDENTICAL, OWN, MessageKind
from benchmarks.spark_reader import ReadCost
from benchmarks.spark_table import Run, fresh_node
from mirrormq.spark import register
from mirrormq.spark.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).with_name("SPARK.md")


@dataclass(frozen=True)
class Extent:
    """Amount of work: that of `make bench`, or a short form of it for a look in between."""

    rounds: int
    messages: int
    """Identical messages to read, and messages to write."""
    unlike_messages: int
    """Messages to read whose properties differ."""
    pika_messages: int
    pika_confirms: int
    """Messages of the runs with pika, whose rate is compared: the whole work would take minutes. The part is
    large enough to make the start of a query, half a second or so, small in comparison."""
    cost_rounds: int
    batches: int
    table_rounds: int
    table_share: float


FULL = Extent(5, 1_000_000, 500_000, 250_000, 20_000, 5, 30, 2, 1.0)
SHORT = Extent(2, 300_000, 200_000, 60_000, 8_000, 2, 12, 1, 0.5)
WARM_UP_MESSAGES = 100_000

READER_US_MAX = 3.0
BATCH_SHARE_MS_MAX = 100.0
TAKES_MS_MAX = 300.0
TIMES: dict[MessageKind, int] = {IDENTICAL: 10, OWN: 8, CELERY: 6}
"""Least ratio to the rate of foreachBatch with pika."""

HEADINGS = ["work", "ours", "the other", "ratio", "target", "ok"]


@dataclass(frozen=True)
class Result:
    """Line of the table."""

    work: str
    ours: str
    other: str
    ratio: float | None
    target: str
    kept: bool

    def cells(self) -> list[str]:
        ratio = "" if self.ratio is None else f"{self.ratio:.{2 if self.ratio < 1 else 1}f} ×"
        return [self.work, self.ours, self.other, ratio, self.target, "yes" if self.kept else "no"]


class Bench:
    """Benchmark that runs each workload once per round and takes the median of its times."""

    def __init__(self, spark: SparkSession, extent: Extent, directory: Path) -> None:
        self._spark = spark
        self._extent = extent
        self._directory = directory
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def warm_up(self) -> None:
        """Run each workload once: the first run takes Spark longer."""
        directory = self._directory / "warm"
        with fresh_node() as node:
            spark_lines.fill(node.uri, "bench", WARM_UP_MESSAGES)
            spark_lines.ours_to_parquet(self._spark, node.uri, "bench", directory)
            spark_lines.parquet_to_parquet(self._spark, directory / "out", directory / "floor")
            spark_lines.fill(node.uri, "pika", 10_000)
            spark_lines.pika_to_parquet(self._spark, node.uri, "pika", 10_000, directory / "pika")
            spark_lines.fill(node.uri, "sink", 0)
            spark_lines.ours_to_exchange(self._spark, node.uri, "sink", 20_000)

    def round(self, number: int) -> None:
        """Read with ours, the lower bound, and pika; then write with ours and pika."""
        spark, seconds = self._spark, self._seconds
        directory = self._directory / str(number)
        for kind in TIMES:
            self._read(kind, directory / str(list(TIMES).index(kind)))
        copy = directory / "floor"
        seconds["floor"].append(spark_lines.parquet_to_parquet(spark, directory / "0" / "out", copy))
        shutil.rmtree(directory)
        with fresh_node() as node:
            spark_lines.fill(node.uri, "sink", 0)
            written, confirms = self._extent.messages, self._extent.pika_confirms
            seconds["written"].append(spark_lines.ours_to_exchange(spark, node.uri, "sink", written))
            seconds["written with pika"].append(
                spark_lines.pika_to_exchange(spark, node.uri, "sink", confirms)
            )

    def _read(self, kind: MessageKind, directory: Path) -> None:
        spark, seconds, part = self._spark, self._seconds, self._extent.pika_messages
        messages = self._messages(kind)
        with fresh_node() as node:
            spark_lines.fill(node.uri, "bench", messages, kind)
            seconds[kind.name].append(spark_lines.ours_to_parquet(spark, node.uri, "bench", directory))
        count = spark.read.parquet(str(directory / "out")).count()
        if count != messages:
            raise RuntimeError(f"{count} of {messages} messages are in Parquet")
        with fresh_node() as node:
            spark_lines.fill(node.uri, "pika", part, kind)
            seconds[f"{kind.name} with pika"].append(
                spark_lines.pika_to_parquet(spark, node.uri, "pika", part, directory / "pika")
            )

    def _messages(self, kind: MessageKind) -> int:
        return self._extent.messages if kind is IDENTICAL else self._extent.unlike_messages

    def results(self) -> list[Result]:
        """Return the lines of the table."""
        median = {work: statistics.median(taken) for work, taken in self._seconds.items()}
        lines = []
        for kind, times in TIMES.items():
            read = self._messages(kind) / median[kind.name]
            pika = self._extent.pika_messages / median[f"{kind.name} with pika"]
            work = f"queue → Parquet, against foreachBatch with pika: {kind.name}"
            lines.append(compared(work, read, pika, times))
        read_s, floor_s = median[IDENTICAL.name], median["floor"]
        written = self._extent.messages / median["written"]
        written_pika = self._extent.pika_confirms / median["written with pika"]
        lines.append(
            Result(
                "identical ones, against the same rows from Parquet to Parquet", f"{read_s:.2f} s",
                f"{floor_s:.2f} s", read_s / floor_s, "≤ 4 ×", read_s <= 4 * floor_s,
            )
        )  # fmt: skip
        work = "DataFrame → exchange with confirms, against pika with confirms"
        return [*lines, compared(work, written, written_pika, 5)]


def compared(work: str, ours: float, other: float, times: int) -> Result:
    """Return a line of two rates, of which ours is to be so many times the other."""
    return Result(
        work, f"{ours:,.0f} msg/s", f"{other:,.0f} msg/s", ours / other, f"≥ {times} ×", ours >= times * other
    )


def cost_line(cost: Cost) -> Result:
    """Return the line for the rate of publishers and consumers beside a reader."""
    return Result(
        "publish + consume on a queue that is read at full speed, against one that is not read",
        f"{cost.beside:,.0f} msg/s", f"{cost.alone:,.0f} msg/s", cost.beside / cost.alone, "≥ 0.8 ×",
        cost.beside >= 0.8 * cost.alone,
    )  # fmt: skip


def reader_line(cost: ReadCost) -> Result:
    """Return the line for the CPU time of a task, from the socket to Arrow columns."""
    return Result(
        f"CPU time of a message, reader beside node: {cost.kind}", f"{cost.reader_us:.2f} µs",
        f"{cost.node_us:.2f} µs", None, f"reader ≤ {READER_US_MAX:g} µs", cost.reader_us <= READER_US_MAX,
    )  # fmt: skip


def batch_lines(cost: BatchCost) -> list[Result]:
    """Return the lines for the fixed cost of a micro-batch."""
    share_ms = cost.one_queue_ms - cost.rate_ms
    queues = spark_batches.QUEUES
    return [
        Result(
            "micro-batch of one message, beside one of Spark's `rate` source",
            f"{cost.one_queue_ms:.0f} ms", f"{cost.rate_ms:.0f} ms", None,
            f"< {BATCH_SHARE_MS_MAX:g} ms more", share_ms < BATCH_SHARE_MS_MAX,
        ),
        Result(
            f"settlements and takes of a micro-batch of {queues} queues; the other: the whole batch",
            f"{cost.takes_ms:.0f} ms", f"{cost.many_queues_ms:.0f} ms", None,
            f"< {TAKES_MS_MAX:g} ms", cost.takes_ms < TAKES_MS_MAX,
        ),
    ]  # fmt: skip


def measure(extent: Extent, directory: Path) -> tuple[list[Result], list[Run]]:
    """Measure all lines and the table, after a warm-up round."""
    spark = start_session("bench", "local[2]", {"spark.driver.memory": "2g"})
    try:
        register(spark)
        bench = Bench(spark, extent, directory)
        bench.warm_up()
        for number in range(extent.rounds):
            print(f"round {number + 1} of {extent.rounds}", file=sys.stderr)
            bench.round(number)
        print("micro-batches, table, costs of readers", file=sys.stderr)
        with fresh_node() as node:
            batches = spark_batches.measure(spark, node.uri, extent.batches, directory / "batches")
        runs = spark_table.measure(spark, extent.table_rounds, directory, extent.table_share)
    finally:
        spark.stop()
    readers = [reader_line(cost) for cost in spark_reader.measure()]
    beside = cost_line(spark_cost.measure(extent.cost_rounds))
    return [*bench.results(), *readers, *batch_lines(batches), beside], runs


def write(results: list[Result], runs: list[Run], machine: list[str], extent: Extent, command: str) -> None:
    """Write the tables to SPARK.md."""
    text = f"""
        Written by `{command}` on {today()}: persistent messages of 100 bytes in a durable queue of a fresh
        node, {extent.messages:,} identical ones or {extent.unlike_messages:,} others; Spark
        {version("pyspark")} on `local[2]` after a round to warm up; medians of {extent.rounds} rounds, each
        with every line. Times are from `load()` or `write` to the query's end, its start included. pika
        does a part of the work ({extent.pika_messages:,} messages consumed, {extent.pika_confirms:,}
        published) and its rate is compared. Own properties are a message id and three headers; Celery's are
        those of a task, with eighteen headers (`benchmarks/spark_lines.py`). CPU times of readers are the
        least of five reads, micro-batches the median of {extent.batches}, and the last line is the median of
        {extent.cost_rounds} times {spark_cost.SECONDS:g} s alone and with a reader
        (`benchmarks/spark_cost.py`)."""
    end_to_end = f"""
        Queues into Parquet, exactly once, on `local[2]`, from `load()` to the end of the query: the fastest
        of {extent.table_rounds}. CPU time of Spark is that of driver, Java and Python workers; small queues
        share tasks (`benchmarks/spark_table.py`)."""
    more = ["", "## End to end", "", *_wrapped(end_to_end), ""]
    more += table_lines(spark_table.HEADINGS, [run.cells() for run in runs])
    text_lines = ["# Spark and queues", "", *_wrapped(text)]
    write_table(RESULTS, text_lines, machine, HEADINGS, [result.cells() for result in results], more)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, break_on_hyphens=False)


def main() -> int:
    """Run the benchmark and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a third of the messages and two rounds")
    parser.add_argument("--rounds", type=int, help="rounds of reads and writes (5; 2 with --short)")
    parser.add_argument("--print", action="store_true", help="write no file")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds} measures nothing: give 1 or more")
    extent = SHORT if options.short else FULL
    extent = replace(extent, rounds=options.rounds or extent.rounds)
    command = "make bench" if extent == FULL else " ".join(("python -m benchmarks.spark_run", *sys.argv[1:]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine = describe(None)
    machine.remove("RabbitMQ: not installed")
    with tempfile.TemporaryDirectory(prefix="mirrormq-bench-") as directory:
        results, runs = measure(extent, Path(directory))
    for cells in [result.cells() for result in results] + [run.cells() for run in runs]:
        print("  ".join(cells))
    if not options.print:
        write(results, runs, machine, extent, command)
        print(f"written to {RESULTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
