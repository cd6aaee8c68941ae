"""Which fault, and which epoch, a lost message is to be blamed on.

A confirmed message can be lost at any time until it is delivered, and nobody sees when. The best guess:
the fault in which it was confirmed (of several, the one that began last); if there was none, the first
fault after it; if there was none either, no fault at all. So every lost message is counted once. Times
are compared in milliseconds, which keeps the tables that are joined small even if millions are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DURING, BEFORE, APART = "during", "before", "apart"
"""Confirmed while the fault lasted; before it began; or with no fault during it or after."""


def fault_windows(events: DataFrame) -> DataFrame:
    """One row per fault, from its beginning to its end (null: it never ended)."""
    began = F.col("kind") == EventKind.FAULT_BEGAN.value
    ended = F.col("kind") == EventKind.FAULT_ENDED.value
    return (
        events.where((began | ended) & F.col("fault").isNotNull())
        .groupBy("run", "fault")
        .agg(
            F.min(F.when(began, F.col("time_ns"))).alias("begin_ns"),
            F.max(F.when(ended, F.col("time_ns"))).alias("end_ns"),
            F.max(F.when(began, F.col("what"))).alias("what"),
            F.max(F.when(began, F.col("node"))).alias("node"),
            F.max(F.when(began, F.col("detail"))).alias("detail"),
        )
        .where(F.col("begin_ns").isNotNull())
    )


def lost_when(arbiter_decisions: DataFrame) -> DataFrame:
    """How many messages were lost of those confirmed in each millisecond, per queue."""
    return (
        arbiter_decisions.where(F.col("lost") > 0)
        .groupBy("run", "queue", milliseconds("confirm_ns").alias("at_ms"))
        .agg(F.sum("lost").alias("lost"))
    )


def lost_by_fault(lost: DataFrame, windows: DataFrame) -> DataFrame:
    """Lost messages per run, fault and relation to it; the fault is null where the relation is APART."""
    spans = windows.select(
        "run", "fault", milliseconds("begin_ns").alias("begin_ms"), milliseconds("end_ns").alias("end_ms")
    )
    at = F.col("at_ms")
    lasting = (F.col("begin_ms") <= at) & (F.col("end_ms").isNull() | (F.col("end_ms") >= at))
    fault = F.struct("begin_ms", "fault")
    return (
        lost.groupBy("run", "at_ms")
        .agg(F.sum("lost").alias("lost"))
        .join(F.broadcast(spans), "run", "left")
        .groupBy("run", "at_ms")
        .agg(
            F.first("lost").alias("lost"),
            F.max(F.when(lasting, fault)).alias("around"),
            F.min(F.when(F.col("begin_ms") > at, fault)).alias("next"),
        )
        .select(
            "run",
            "lost",
            F.coalesce("around.fault", "next.fault").alias("fault"),
            F.when(F.col("around").isNotNull(), DURING)
            .when(F.col("next").isNotNull(), BEFORE)
            .otherwise(APART)
            .alias("relation"),
        )
        .groupBy("run", "fault", "relation")
        .agg(F.sum("lost").alias("lost"))
    )


def lost_by_epoch(lost: DataFrame, known: DataFrame) -> DataFrame:
    """Lost messages per run, queue and the epoch they were confirmed in (null: before any was seen)."""
    started = known.select("run", "queue", "epoch", milliseconds("since_ns").alias("since_ms"))
    running = F.when(F.col("since_ms") <= F.col("at_ms"), F.struct("since_ms", "epoch"))
    return (
        lost.join(F.broadcast(started), ["run", "queue"], "left")
        .groupBy("run", "queue", "at_ms")
        .agg(F.first("lost").alias("lost"), F.max(running).alias("running"))
        .groupBy("run", "queue", F.col("running.epoch").alias("epoch"))
        .agg(F.sum("lost").alias("lost"))
    )


def milliseconds(column: str) -> Column:
    """Nanoseconds as whole milliseconds."""
    return F.expr(f"{column} div 1000000")
