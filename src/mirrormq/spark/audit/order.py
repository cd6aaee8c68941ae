"""Messages that overtook others of their publisher.

AMQP keeps the order of one channel's publishes on their way through one queue to one consumer. What was
delivered before and comes again (flagged), and what the publisher sent again, is free to come later. So
among the other deliveries of one publisher in one queue to one consumer, a number that is lower than
one before it is an inversion. It needs no more than the highest number so far, over rows sorted by
time; Spark sorts on disk what does not fit in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STREAM = ("run", "queue", "consumer", "publisher")


def inversions(events: DataFrame) -> DataFrame:
    """Each delivery that came after one with a higher number, which stands in `after`."""
    first_copies = events.where(
        (F.col("kind") == Kind.DELIVERED.value)
        & ~F.coalesce(F.col("redelivered"), F.lit(False))
        & (F.coalesce(F.col("attempt"), F.lit(1)) == 1)
        & F.col("publisher").isNotNull()
        & F.col("number").isNotNull()
    ).select(*STREAM, "time_ns", "number")
    before = (
        Window.partitionBy(*STREAM).orderBy("time_ns", "number").rowsBetween(Window.unboundedPreceding, -1)
    )
    return first_copies.withColumn("after", F.max("number").over(before)).where(
        F.col("number") < F.col("after")
    )
