"""Activity of each node in ticks of ten milliseconds: rates, and the longest silence.

A tick keeps its first and its last event. A silence of a tick or more lies between two ticks, and its length
is exact. Shorter ones are reported as one tick. Whatever the number of messages, there are at most a hundred
rows per second, node and kind.

The silence of confirms at a node is measured from the first publish there until the last publish anywhere: a
node that fails and is abandoned stays silent until the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TICK_NS = 10_000_000

EVERYWHERE = "the whole cluster"
"""Name of the whole cluster in place of a node."""

KINDS = (EventKind.ATTEMPTED, EventKind.CONFIRMED, EventKind.DELIVERED)


def ticks(events: DataFrame) -> DataFrame:
    """Count attempts, confirms and deliveries per run, node and tick."""
    return (
        events.where(F.col("kind").isin([kind.value for kind in KINDS]) & F.col("node").isNotNull())
        .groupBy("run", "node", "kind", F.expr(f"time_ns div {TICK_NS}").alias("tick"))
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.min("time_ns").alias("first_ns"),
            F.max("time_ns").alias("last_ns"),
        )
    )


def rates(ticked: DataFrame, start_ns: int, slice_ns: int) -> DataFrame:
    """Sum ticks into larger slices of time, for a plot."""
    number = F.expr(f"cast((first_ns - {start_ns}) div {slice_ns} as int)").alias("slice")
    return ticked.groupBy("run", "node", "kind", number).agg(F.sum("events").alias("events"))


def silences(ticked: DataFrame) -> DataFrame:
    """Return the longest silence per run, node and kind (confirmed, delivered), with start and end."""
    event_ticks = ticked.where(F.col("kind") != EventKind.ATTEMPTED.value).select(
        "run", "node", "kind", "first_ns", "last_ns"
    )
    points = Window.partitionBy("run", "node", "kind").orderBy("first_ns", "last_ns")
    last_event = F.max("last_ns").over(points.rowsBetween(Window.unboundedPreceding, -1))
    silence = F.greatest(F.col("first_ns") - F.col("last_event_ns"), F.lit(TICK_NS))
    return (
        event_ticks.unionByName(_edges(ticked))
        .withColumn("last_event_ns", F.coalesce(last_event, F.col("first_ns")))
        .groupBy("run", "node", "kind")
        .agg(F.max(F.struct(silence.alias("silence_ns"), "last_event_ns", "first_ns")).alias("longest"))
        .select(
            "run",
            "node",
            "kind",
            "longest.silence_ns",
            F.col("longest.last_event_ns").alias("from_ns"),
            F.col("longest.first_ns").alias("to_ns"),
        )
    )


def cluster_silences(ticked: DataFrame) -> DataFrame:
    """Return the longest silence of all nodes together per run and kind, in columns of `silences`.

    This is the outage for a client that may connect to any node.
    """
    return silences(ticked.withColumn("node", F.lit(EVERYWHERE)))


def _edges(ticked: DataFrame) -> DataFrame:
    """Return start and end of the search for silent confirms, as two points of each node with publishes."""
    attempted = F.col("kind") == EventKind.ATTEMPTED.value
    confirmed = F.col("kind") == EventKind.CONFIRMED.value
    first, last = F.col("first_ns"), F.col("last_ns")
    run_end = F.max("attempt_last").over(Window.partitionBy("run"))
    return (
        ticked.where(attempted | confirmed)
        .groupBy("run", "node")
        .agg(
            F.min(F.when(attempted, first)).alias("attempt_first"),
            F.max(F.when(attempted, last)).alias("attempt_last"),
            F.min(F.when(confirmed, first)).alias("confirm_first"),
            F.max(F.when(confirmed, last)).alias("confirm_last"),
        )
        .withColumn("run_end", run_end)
        .where(F.col("attempt_first").isNotNull())
        .select(
            "run",
            "node",
            F.lit(EventKind.CONFIRMED.value).alias("kind"),
            F.explode(
                F.array(F.least("attempt_first", "confirm_first"), F.greatest("run_end", "confirm_last"))
            ).alias("first_ns"),
        )
        .withColumn("last_ns", F.col("first_ns"))
    )
