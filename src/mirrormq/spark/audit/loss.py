"""Attribution of lost messages to faults and epochs.

A confirmed message can be lost at any time until it is delivered, and the history does not show when. The
attribution is heuristic: the fault in which the message was confirmed (of several, the one that began last);
without one, the first fault after it; otherwise no fault. Every lost message is counted once. Times are
compared in milliseconds, which keeps the joined tables small even if millions are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DURING, BEFORE, APART = "during", "before", "apart"
"""Relation of a confirm to the fault: while it lasted, before it began, or no fault during or after."""


def fault_windows(events: DataFrame) -> DataFrame:
    """Return one row per fault with start and end (null: it never ended)."""
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


def lost_when(verdicts: DataFrame) -> DataFrame:
    """Count lost messages by queue and millisecond of their confirm."""
    return (
        verdicts.where(F.col("lost") > 0)
        .groupBy("run", "queue", milliseconds("confirm_ns").alias("at_ms"))
        .agg(F.sum("lost").alias("lost"))
    )


def lost_by_fault(lost: DataFrame, windows: DataFrame) -> DataFrame:
    """Count lost messages per run, fault and relation to it; the fault is null where the relation is
    APART."""
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
    """Count lost messages per run, queue and epoch of their confirm (null: before the first known epoch)."""
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
    """Return nanoseconds as whole milliseconds."""
    return F.expr(f"{column} div 1000000")
