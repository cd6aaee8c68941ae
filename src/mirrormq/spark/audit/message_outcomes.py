"""Outcome of each message, and sums by class: the classes of Jepsen's total-queue checker.

One row per message, by one aggregation over (run, queue, publisher, number). It has counters and times only:
the aggregation keeps fixed-size rows and can spill; nothing is ever collected per message.

With a = attempts, e = confirms without returns, d = deliveries of one message:

    ok          min(d, a)          deliveries, up to the number of attempts
    lost        max(e - d, 0)      confirmed, and not delivered
    unexpected  d, when a = 0      delivered, and never attempted
    duplicated  max(d - a, 0)      delivered more often than attempted
    recovered   max(ok - e, 0)     delivered without a confirm

A returned message is confirmed too, by the protocol, though no queue has it: each return cancels one confirm.
Each attempt may be delivered once without the flag `redelivered`; further such deliveries are *unflagged*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MESSAGE = ("run", "queue", "publisher", "number")
"""Columns that identify a message."""

MESSAGE_KINDS = (
    EventKind.ATTEMPTED,
    EventKind.CONFIRMED,
    EventKind.NACKED,
    EventKind.RETURNED,
    EventKind.DELIVERED,
    EventKind.ACKNOWLEDGED,
)

CLASSES = (
    "attempted", "confirmed", "nacked", "returned", "unknown", "delivered", "ok", "lost", "unexpected",
    "duplicated", "recovered", "unflagged", "came_back",
)  # fmt: skip
"""Columns that `classes` sums."""


def messages(events: DataFrame) -> DataFrame:
    """Return one row per message: the number of events by kind, and the time of the first."""
    of = {kind: F.col("kind") == kind.value for kind in MESSAGE_KINDS}
    flagged = F.coalesce(F.col("redelivered"), F.lit(False))

    def first(kind: EventKind) -> Column:
        return F.min(F.when(of[kind], F.col("time_ns")))

    return (
        events.where(F.col("kind").isin([kind.value for kind in MESSAGE_KINDS]))
        .groupBy(*MESSAGE)
        .agg(
            F.count_if(of[EventKind.ATTEMPTED]).alias("attempted"),
            F.count_if(of[EventKind.CONFIRMED]).alias("confirms"),
            F.count_if(of[EventKind.NACKED]).alias("nacked"),
            F.count_if(of[EventKind.RETURNED]).alias("returned"),
            F.count_if(of[EventKind.DELIVERED]).alias("delivered"),
            F.count_if(of[EventKind.DELIVERED] & ~flagged).alias("delivered_unflagged"),
            first(EventKind.ATTEMPTED).alias("attempt_ns"),
            first(EventKind.CONFIRMED).alias("confirm_ns"),
            first(EventKind.DELIVERED).alias("delivery_ns"),
            first(EventKind.ACKNOWLEDGED).alias("acknowledgement_ns"),
            F.max(F.when(of[EventKind.DELIVERED], F.col("time_ns"))).alias("last_delivery_ns"),
        )
    )


def judged(counted: DataFrame) -> DataFrame:
    """Add the class to the rows of `messages`; a separate step, because only the counts need be stored."""
    zero = F.lit(0).cast("long")
    attempted, delivered, confirmed, ok = (
        F.col(name) for name in ("attempted", "delivered", "confirmed", "ok")
    )
    sent = attempted > 0
    return (
        counted.withColumn("confirmed", F.greatest(F.col("confirms") - F.col("returned"), zero))
        .withColumn("ok", F.least(delivered, attempted))
        .withColumns(
            {
                "unknown": F.greatest(attempted - F.col("confirms") - F.col("nacked"), zero),
                "lost": F.greatest(confirmed - delivered, zero),
                "unexpected": F.when(~sent, delivered).otherwise(zero),
                "duplicated": F.when(sent, F.greatest(delivered - attempted, zero)).otherwise(zero),
                "recovered": F.greatest(ok - confirmed, zero),
                "unflagged": F.when(
                    sent, F.greatest(F.col("delivered_unflagged") - attempted, zero)
                ).otherwise(zero),
                "came_back": F.when(
                    F.col("last_delivery_ns") > F.col("acknowledgement_ns"), F.lit(1).cast("long")
                ).otherwise(zero),
            }
        )
    )


def classes(verdicts: DataFrame, *by: str) -> DataFrame:
    """Sum over messages, for each value of the columns `by` (none: one row for everything)."""
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in CLASSES]
    return verdicts.groupBy(*by).agg(F.count(F.lit(1)).alias("messages"), *sums)


def classes_summed(partial: DataFrame) -> DataFrame:
    """Sum the partial results of `classes` into one row."""
    return partial.agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("messages", *CLASSES)))


def examples(verdicts: DataFrame, column: str, limit: int) -> DataFrame:
    """Return the first messages by time that are `lost`, `unexpected` or `unflagged`."""
    when = F.coalesce(F.col("attempt_ns"), F.col("delivery_ns"), F.col("confirm_ns"))
    times = ("attempt_ns", "confirm_ns", "delivery_ns", "last_delivery_ns")
    return (
        verdicts.where(F.col(column) > 0)
        .select(*MESSAGE, "attempted", "confirmed", "delivered", *times)
        .orderBy("run", when, "publisher", "number")
        .limit(limit)
    )
