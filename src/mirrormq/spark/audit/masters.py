"""Masters of queues by epoch, and agreement of the replicas at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def epochs(events: DataFrame) -> DataFrame:
    """Return one row per queue and epoch: start, claimed masters, and nodes that confirmed."""
    claimed = F.col("kind") == EventKind.MASTER.value
    confirmed = F.col("kind") == EventKind.MASTER_CONFIRMED.value
    return (
        events.where((claimed | confirmed) & F.col("epoch").isNotNull())
        .groupBy("run", "queue", "epoch")
        .agg(
            F.min("time_ns").alias("since_ns"),
            F.sort_array(F.collect_set(F.when(claimed, F.col("node")))).alias("masters"),
            F.sort_array(F.collect_set(F.when(confirmed, F.col("node")))).alias("confirming"),
            F.coalesce(F.sum(F.when(confirmed, F.col("count"))), F.lit(0)).alias("confirms"),
        )
    )


def split_epochs(known: DataFrame) -> DataFrame:
    """Return the epochs with two masters; `both_confirmed` marks those in which more than one confirmed."""
    all_masters = F.array_union("masters", "confirming")
    return known.withColumn("both_confirmed", F.size("confirming") > 1).where(F.size(all_masters) > 1)


def divergences(events: DataFrame) -> DataFrame:
    """Return the positions (epoch, sequence) of a queue at which replicas have different checksums."""
    return (
        events.where((F.col("kind") == EventKind.REPLICA.value) & F.col("checksum").isNotNull())
        .groupBy("run", "queue", "epoch", "sequence")
        .agg(
            F.count_distinct("checksum").alias("versions"),
            F.sort_array(F.collect_set(F.struct("node", "checksum", "count"))).alias("replicas"),
        )
        .where(F.col("versions") > 1)
    )


def replicas(events: DataFrame) -> DataFrame:
    """Return the last reported contents of each replica."""
    at = F.struct("time_ns", "epoch", "sequence", "checksum", "count")
    return (
        events.where(F.col("kind") == EventKind.REPLICA.value)
        .groupBy("run", "queue", "node")
        .agg(F.max(at).alias("at"))
        .select("run", "queue", "node", "at.epoch", "at.sequence", "at.checksum", "at.count")
    )
