"""Comparison of the audit with the checker on many random histories at once.

All histories of a batch pass through Spark as one DataFrame, distinguished by `run`: they share the cost of
Spark's jobs. Run this module for a long comparison:

    python -m tests.spark.agreement --histories 1000000 --seed 7
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from mirrormq.history import SCHEMA
from mirrormq.spark.audit import activity, latency, loss, masters, message_outcomes, order
from mirrormq.spark.audit.history_events import read_events
from mirrormq.spark.spark_session import start_session
from tests.spark.checker import PARTS, Verdict, percentile
from tests.spark.events import Event, to_table
from tests.spark.random_histories import START_NS, random_history

BATCH = 50_000
"""Histories in one DataFrame: about a million rows, and the checker's verdicts on them in 1 GB."""

ROWS_PER_WRITE = 200_000
ANSWERS = ("classes", "inversions", "splits", "divergences", "lost_by_fault", "lost_by_epoch", "silences")


def disagreements(spark: SparkSession, first: int, count: int, seed: int, scratch: Path) -> list[str]:
    """Return the differences on `count` histories; empty if both agree."""
    expected = _write_and_check(first, count, seed, scratch)
    answers = _audited(read_events(spark, str(scratch)))
    wrong = []
    for run, verdict in expected.items():
        for name in ANSWERS:
            ours, theirs = answers[name].get(run, {}), verdict[name]
            if ours != theirs:
                wrong.append(f"run {run} of seed {seed}: {name}: audit {ours}, checker {theirs}")
        wrong += _latency_differences(run, seed, answers["latencies"].get(run, {}), verdict["latencies"])
    unknown = {run for table in answers.values() for run in table} - expected.keys()
    return wrong + [f"run {run} is of nobody" for run in unknown]


def _write_and_check(first: int, count: int, seed: int, scratch: Path) -> dict[int, dict[str, Any]]:
    expected: dict[int, dict[str, Any]] = {}
    waiting: list[Event] = []
    scratch.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(scratch / "histories.parquet", SCHEMA) as file:
        for run in range(first, first + count):
            history = random_history(run, seed)
            expected[run] = _checked(history)
            waiting += history
            if len(waiting) >= ROWS_PER_WRITE:
                file.write_table(to_table(waiting))
                waiting = []
        if waiting:
            file.write_table(to_table(waiting))
    return expected


def _checked(history: list[Event]) -> dict[str, Any]:
    verdict = Verdict(history)
    checked: dict[str, Any] = {name: getattr(verdict, name)() for name in (*ANSWERS, "latencies")}
    checked["classes"] = _without_zeros(checked["classes"])
    checked["inversions"] = {"inversions": checked["inversions"]} if checked["inversions"] else {}
    return checked


def _audited(events: DataFrame) -> dict[str, dict[int, dict[Hashable, Any]]]:
    counted = message_outcomes.messages(events).persist()
    verdicts = message_outcomes.judged(counted)
    known = masters.epochs(events)
    lost = loss.lost_when(verdicts)
    ticks = activity.ticks(events).persist()
    by_class = message_outcomes.classes(verdicts, "run").drop("messages").toArrow().to_pylist()
    answers = {
        "classes": {row.pop("run"): _without_zeros(row) for row in by_class},
        "inversions": _table(order.inversions(events).groupBy("run").count(), (), "count", "inversions"),
        "splits": _table(masters.split_epochs(known), ("queue", "epoch"), "both_confirmed"),
        "divergences": _table(masters.divergences(events), ("queue", "epoch", "sequence"), "versions"),
        "lost_by_fault": _table(
            loss.lost_by_fault(lost, loss.fault_windows(events)), ("fault", "relation"), "lost"
        ),
        "lost_by_epoch": _table(loss.lost_by_epoch(lost, known), ("queue", "epoch"), "lost"),
        "silences": _table(activity.silences(ticks), ("node", "kind"), "silence_ns"),
        "latencies": _latencies(latency.latencies(verdicts, START_NS, 10**12)),
    }
    counted.unpersist()
    ticks.unpersist()
    return answers


def _without_zeros(counts: dict[str, int]) -> dict[Hashable, Any]:
    return {name: count for name, count in counts.items() if count}


def _table(
    frame: DataFrame, key: tuple[str, ...], value: str, name: str = ""
) -> dict[int, dict[Hashable, Any]]:
    """run → {key: value} of a DataFrame with one row per run and key."""
    found: dict[int, dict[Hashable, Any]] = defaultdict(dict)
    for row in frame.select("run", *key, value).toArrow().to_pylist():
        found[row["run"]][tuple(row[column] for column in key) if key else name] = row[value]
    return found


def _latencies(frame: DataFrame) -> dict[int, dict[Hashable, Any]]:
    found: dict[int, dict[Hashable, Any]] = defaultdict(lambda: {"confirm": [], "delivery": []})
    for row in frame.toArrow().to_pylist():
        found[row["run"]][row["measure"]].append((row["bucket"], row["messages"], row["latency_ns_max"]))
    return found


def _latency_differences(
    run: int, seed: int, buckets: dict[Hashable, Any], exact: dict[str, list[int]]
) -> list[str]:
    wrong = []
    for measure, values in exact.items():
        counts = [(bucket, n) for bucket, n, _ in buckets.get(measure, ())]
        largest = max((highest for _, _, highest in buckets.get(measure, ())), default=None)
        if sum(n for _, n in counts) != len(values) or largest != (values[-1] if values else None):
            wrong.append(f"run {run} of seed {seed}: {measure} latencies are {buckets}, not of {values}")
            continue
        for part in PARTS if values else ():
            ours, theirs = latency.percentile_ns(counts, part), percentile(values, part)
            if ours is None or abs(ours - theirs) > 0.012 * theirs + 1:
                wrong.append(f"run {run} of seed {seed}: {part} of {measure} latencies: {ours}, not {theirs}")
    return wrong


def main() -> None:
    """Compare the given number of histories and print the result."""
    parser = argparse.ArgumentParser(description="The audit against the checker on random histories.")
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    spark = start_session("agreement", options.master, {"spark.sql.shuffle.partitions": "8"})
    began, found = time.monotonic(), 0
    for first in range(0, options.histories, BATCH):
        count = min(BATCH, options.histories - first)
        with tempfile.TemporaryDirectory() as scratch:
            wrong = disagreements(spark, first, count, options.seed, Path(scratch))
        found += len(wrong)
        print(
            f"{first + count:,} histories, {found} disagreements, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        print("\n".join(wrong[:20]), end="\n" if wrong else "")
    spark.stop()
    raise SystemExit(found > 0)


if __name__ == "__main__":
    main()
