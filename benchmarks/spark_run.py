"""Spark benchmark, third table of `make bench`: Spark on queues, compared with pika and with files."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import spark_cost, spark_lines
from benchmarks.brokers import MirrorMQ
from benchmarks.machine import describe, today, write_table
from benchmarks.spark_cost import Cost
from mirrormq.spark import register
from mirrormq.spark.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).with_name("SPARK.md")
MESSAGES = 1_000_000
WARM_UP_MESSAGES = 100_000
PIKA_MESSAGES = 250_000
PIKA_CONFIRMS = 20_000
"""Messages of the runs with pika, whose rate is compared: the whole work would take minutes. The part is
large enough to make the start of a query, half a second or so, small in comparison."""

ROUNDS = 5
COST_ROUNDS = 5
"""Rounds of the cost measurement, which are short."""

HEADINGS = ["work", "ours", "the other", "ratio", "target", "ok"]


@dataclass(frozen=True)
class Result:
    """Line of the table."""

    work: str
    ours: str
    other: str
    ratio: float
    target: str
    kept: bool

    def cells(self) -> list[str]:
        ratio = f"{self.ratio:.2f} ×" if self.ratio < 1 else f"{self.ratio:.1f} ×"
        return [self.work, self.ours, self.other, ratio, self.target, "yes" if self.kept else "no"]


@contextmanager
def fresh_node() -> Iterator[str]:
    """Start a fresh node and return its URI."""
    broker = MirrorMQ()
    try:
        broker.start()
        yield broker.uri
    finally:
        broker.stop()


class Bench:
    """Benchmark that runs each workload once per round and takes the median of its times."""

    def __init__(self, spark: SparkSession, messages: int, directory: Path) -> None:
        self._spark = spark
        self._messages = messages
        self._pika_messages = min(PIKA_MESSAGES, messages)
        self._pika_confirms = min(PIKA_CONFIRMS, messages)
        self._directory = directory
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def warm_up(self) -> None:
        """Run each workload once: the first run takes Spark longer."""
        directory = self._directory / "warm"
        with fresh_node() as uri:
            spark_lines.fill(uri, "bench", WARM_UP_MESSAGES)
            spark_lines.ours_to_parquet(self._spark, uri, "bench", directory)
            spark_lines.parquet_to_parquet(self._spark, directory / "out", directory / "floor")
            spark_lines.fill(uri, "pika", 10_000)
            spark_lines.pika_to_parquet(self._spark, uri, "pika", 10_000, directory / "pika")
            spark_lines.fill(uri, "sink", 0)
            spark_lines.ours_to_exchange(self._spark, uri, "sink", 20_000)

    def round(self, number: int) -> None:
        """Read with ours, the lower bound, and pika; then write with ours and pika."""
        spark, messages, seconds = self._spark, self._messages, self._seconds
        directory = self._directory / str(number)
        with fresh_node() as uri:
            spark_lines.fill(uri, "bench", messages)
            seconds["read"].append(spark_lines.ours_to_parquet(spark, uri, "bench", directory))
        count = spark.read.parquet(str(directory / "out")).count()
        if count != messages:
            raise RuntimeError(f"{count} of {messages} messages are in Parquet")
        seconds["floor"].append(spark_lines.parquet_to_parquet(spark, directory / "out", directory / "floor"))
        with fresh_node() as uri:
            spark_lines.fill(uri, "pika", self._pika_messages)
            seconds["read with pika"].append(
                spark_lines.pika_to_parquet(spark, uri, "pika", self._pika_messages, directory / "pika")
            )
        shutil.rmtree(directory)
        with fresh_node() as uri:
            spark_lines.fill(uri, "sink", 0)
            seconds["written"].append(spark_lines.ours_to_exchange(spark, uri, "sink", messages))
            confirms = self._pika_confirms
            seconds["written with pika"].append(spark_lines.pika_to_exchange(spark, uri, "sink", confirms))

    def results(self) -> list[Result]:
        """Return the lines of the table."""
        median = {work: statistics.median(taken) for work, taken in self._seconds.items()}
        read_s, floor_s = median["read"], median["floor"]
        read, written = self._messages / read_s, self._messages / median["written"]
        read_pika = self._pika_messages / median["read with pika"]
        written_pika = self._pika_confirms / median["written with pika"]
        return [
            Result(
                "queue → Parquet, against foreachBatch with pika", f"{read:,.0f} msg/s",
                f"{read_pika:,.0f} msg/s", read / read_pika, "≥ 10 ×", read >= 10 * read_pika,
            ),
            Result(
                "the same, against the same rows from Parquet to Parquet", f"{read_s:.2f} s",
                f"{floor_s:.2f} s", read_s / floor_s, "≤ 4 ×", read_s <= 4 * floor_s,
            ),
            Result(
                "DataFrame → exchange with confirms, against pika with confirms", f"{written:,.0f} msg/s",
                f"{written_pika:,.0f} msg/s", written / written_pika, "≥ 5 ×", written >= 5 * written_pika,
            ),
        ]  # fmt: skip


def cost_line(cost: Cost) -> Result:
    """Return the line for the rate of publishers and consumers beside a reader."""
    return Result(
        "publish + consume on a queue that is read at full speed, against one that is not read",
        f"{cost.beside:,.0f} msg/s", f"{cost.alone:,.0f} msg/s", cost.beside / cost.alone, "≥ 0.8 ×",
        cost.beside >= 0.8 * cost.alone,
    )  # fmt: skip


def measure(messages: int, rounds: int, directory: Path) -> list[Result]:
    """Measure all lines, after a warm-up round."""
    spark = start_session("bench", "local[2]", {"spark.driver.memory": "2g"})
    try:
        register(spark)
        bench = Bench(spark, messages, directory)
        bench.warm_up()
        for number in range(rounds):
            bench.round(number)
    finally:
        spark.stop()
    return [*bench.results(), cost_line(spark_cost.measure(COST_ROUNDS))]


def write(results: list[Result], machine: list[str], messages: int, rounds: int) -> None:
    """Write the table to SPARK.md."""
    text = [
        "# Spark and queues",
        "",
        f"Written by `make bench` on {today()}: {messages:,} persistent messages of 100 bytes in a durable",
        f"queue of a fresh node, Spark {version('pyspark')} on `local[2]` after a round to warm up; medians",
        f"of {rounds} rounds, each with every line. Times are from `load()` or `write` to the query's end,",
        f"its start included. pika does a part of the work ({PIKA_MESSAGES:,} messages consumed,",
        f"{PIKA_CONFIRMS:,} published) and its rate is compared. The last line is the median of",
        f"{COST_ROUNDS} times {spark_cost.SECONDS:g} s alone and with a reader (`benchmarks/spark_cost.py`).",
    ]
    write_table(RESULTS, text, machine, HEADINGS, [result.cells() for result in results])


def main() -> int:
    """Run the benchmark; a complete table is written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="messages in the queue")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of rounds")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine = describe(None)[:-2]
    machine.append(f"load average before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="mirrormq-bench-") as directory:
        results = measure(options.messages, options.rounds, Path(directory))
    for result in results:
        print("  ".join(result.cells()))
    if options.messages == MESSAGES:
        write(results, machine, options.messages, options.rounds)
        print(f"written to {RESULTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
