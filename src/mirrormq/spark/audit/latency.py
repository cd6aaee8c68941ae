"""Latencies of confirms and deliveries as bucket counts: small, whatever the number of messages.

Buckets are logarithmic, BUCKETS_PER_DOUBLING to each power of two: a percentile is exact to about one
percent, and the maximum is kept exactly. Only messages with one attempt count, because for others it is
unknown which attempt was confirmed. A negative time (clocks of two machines) is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKETS_PER_DOUBLING = 32

CONFIRM, DELIVERY = "confirm", "delivery"


def latencies(verdicts: DataFrame, start_ns: int, slice_ns: int) -> DataFrame:
    """Count per run, measure, slice of time (by the attempt) and bucket, with the largest latency."""

    def since_attempt(column: str, measure: str) -> Column:
        return F.struct(
            F.lit(measure).alias("measure"),
            F.greatest(F.col(column) - F.col("attempt_ns"), F.lit(0).cast("long")).alias("latency_ns"),
        )

    pairs = F.array(since_attempt("confirm_ns", CONFIRM), since_attempt("delivery_ns", DELIVERY))
    answered = {CONFIRM: F.col("confirmed") > 0, DELIVERY: F.col("delivered") > 0}
    return (
        verdicts.where((F.col("attempted") == 1) & (answered[CONFIRM] | answered[DELIVERY]))
        .select(
            "run",
            "confirmed",
            "delivered",
            F.expr(f"cast((attempt_ns - {start_ns}) div {slice_ns} as int)").alias("slice"),
            F.inline(pairs),
        )
        .where(
            ((F.col("measure") == CONFIRM) & answered[CONFIRM])
            | ((F.col("measure") == DELIVERY) & answered[DELIVERY])
        )
        .groupBy("run", "measure", "slice", bucket("latency_ns").alias("bucket"))
        .agg(F.count(F.lit(1)).alias("messages"), F.max("latency_ns").alias("latency_ns_max"))
    )


def bucket(column: str) -> Column:
    """Return the bucket of a latency."""
    return F.floor(F.log2(F.col(column) + F.lit(1)) * F.lit(BUCKETS_PER_DOUBLING)).cast("int")


def middle_ns(number: int) -> float:
    """Return the latency in the middle of a bucket."""
    return float(2 ** ((number + 0.5) / BUCKETS_PER_DOUBLING) - 1)


def percentile_ns(counts: Iterable[tuple[int, int]], part: float) -> float | None:
    """Return the latency that `part` of the messages did not exceed, from (bucket, messages); None without
    any."""
    ordered = sorted(counts)
    wanted = part * sum(messages for _, messages in ordered)
    seen = 0
    for number, messages in ordered:
        seen += messages
        if seen >= wanted:
            return middle_ns(number)
    return None
