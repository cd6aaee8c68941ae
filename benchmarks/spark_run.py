"""`make bench`, third table: Spark and queues, beside pika and beside files."""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import spark_lines
from benchmarks.brokers import MirrorMQ
from benchmarks.machine import describe
from mirrormq.spark import register
from mirrormq.spark.session import start_session

RESULTS = Path(__file__).with_name("SPARK.md")
MESSAGES = 1_000_000
PIKA_MESSAGES = 100_000
PIKA_CONFIRMS = 20_000
"""pika does a part of the work, and its rate is what counts: the whole would take minutes."""

HEADINGS = ["work", "ours", "the other", "ratio", "target", "ok"]


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    work: str
    ours: str
    other: str
    ratio: float
    target: str
    kept: bool

    def cells(self) -> list[str]:
        return [
            self.work,
            self.ours,
            self.other,
            f"{self.ratio:.1f} ×",
            self.target,
            "yes" if self.kept else "no",
        ]


def measure(uri: str, messages: int, directory: Path) -> list[Result]:
    """All lines, one after the other, after a round that only warms up."""
    spark = start_session("bench", "local[2]", {"spark.driver.memory": "2g"})
    try:
        register(spark)
        part = min(PIKA_MESSAGES, messages)
        spark_lines.fill(uri, "warm", part)
        spark_lines.ours_to_parquet(spark, uri, "warm", directory / "warm")
        spark_lines.fill(uri, "bench", messages)
        ours_s = spark_lines.ours_to_parquet(spark, uri, "bench", directory / "ours")
        count = spark.read.parquet(str(directory / "ours" / "out")).count()
        if count != messages:
            raise RuntimeError(f"{count} of {messages} messages are in Parquet")
        floor_s = spark_lines.parquet_to_parquet(spark, directory / "ours" / "out", directory / "floor")
        spark_lines.fill(uri, "pika", part)
        pika_s = spark_lines.pika_to_parquet(spark, uri, "pika", part, directory / "pika")
        spark_lines.fill(uri, "sink", 0)
        spark_lines.ours_to_exchange(spark, uri, "sink", 20_000)
        sink_s = spark_lines.ours_to_exchange(spark, uri, "sink", messages)
        confirms = min(PIKA_CONFIRMS, messages)
        sink_pika_s = spark_lines.pika_to_exchange(spark, uri, "sink", confirms)
    finally:
        spark.stop()
    read, read_pika = messages / ours_s, part / pika_s
    written, written_pika = messages / sink_s, confirms / sink_pika_s
    return [
        Result(
            "queue → Parquet, against foreachBatch with pika", f"{read:,.0f} msg/s",
            f"{read_pika:,.0f} msg/s", read / read_pika, "≥ 10 ×", read >= 10 * read_pika,
        ),
        Result(
            "the same, against the same rows from Parquet to Parquet", f"{ours_s:.2f} s", f"{floor_s:.2f} s",
            ours_s / floor_s, "≤ 4 ×", ours_s <= 4 * floor_s,
        ),
        Result(
            "DataFrame → exchange with confirms, against pika with confirms", f"{written:,.0f} msg/s",
            f"{written_pika:,.0f} msg/s", written / written_pika, "≥ 5 ×", written >= 5 * written_pika,
        ),
    ]  # fmt: skip


def write(results: list[Result], machine: list[str], messages: int) -> None:
    """The table in SPARK.md."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    text = [
        "# Spark and queues",
        "",
        f"Written by `make bench` on {today}: {messages:,} persistent messages of 100 bytes in a durable",
        f"queue of one node, Spark {version('pyspark')} on `local[2]` after a round to warm up, one run.",
        f"pika does a part of the work ({PIKA_MESSAGES:,} messages consumed, {PIKA_CONFIRMS:,} published)",
        "and its rate is compared.",
        "",
        *[f"- {fact}" for fact in machine],
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *["| " + " | ".join(result.cells()) + " |" for result in results],
        "",
    ]
    RESULTS.write_text("\n".join(text))


def main() -> int:
    """Run the benchmark; the table is written when it is the whole one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="messages in the queue")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine = describe(None)[:-2]
    machine.append(f"load average before: {os.getloadavg()[0]:.2f}")
    broker = MirrorMQ()
    try:
        broker.start()
        with tempfile.TemporaryDirectory(prefix="mirrormq-bench-") as directory:
            results = measure(broker.uri, options.messages, Path(directory))
    finally:
        broker.stop()
    for result in results:
        print("  ".join(result.cells()))
    if options.messages == MESSAGES:
        write(results, machine, options.messages)
        print(f"written to {RESULTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
