"""Order check: messages that overtook others of their publisher.

AMQP keeps the order of one channel's publishes on their way through one queue to one consumer. Redeliveries
(flagged) and messages that the publisher sent again may arrive later. Among the other deliveries of one
publisher in one queue to one consumer, a number lower than a previous one is an inversion. The check needs
only the highest number so far, over rows sorted by time; Spark sorts on disk what does not fit in memory.

A client may lose its connection and continue under the same number: that is a new *incarnation*, and AMQP
guarantees no order between two of them. A consumer's incarnation ends with `disconnected` or `cancelled`. A
publisher's ends with `disconnected`. A delivered message belongs to the incarnation whose range holds its
number; a range begins at the lowest number attempted in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STREAM = ("run", "queue", "consumer", "publisher")
INCARNATIONS = ("consumer_incarnation", "publisher_incarnation")


def inversions(events: DataFrame, *, incarnations: bool = True) -> DataFrame:
    """Return each delivery that came after one with a higher number, which stands in `after`.

    `incarnations=False` saves work if no client lost a connection or was cancelled.
    """
    first_copies = events.where(
        (F.col("kind") == EventKind.DELIVERED.value)
        & ~F.coalesce(F.col("redelivered"), F.lit(False))
        & (F.coalesce(F.col("attempt"), F.lit(1)) == 1)
        & F.col("publisher").isNotNull()
        & F.col("number").isNotNull()
    )
    streams = _with_incarnations(first_copies, events) if incarnations else first_copies
    stream = (*STREAM, *INCARNATIONS) if incarnations else STREAM
    before = (
        Window.partitionBy(*stream).orderBy("time_ns", "number").rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        streams.select(*stream, "time_ns", "number")
        .withColumn("after", F.max("number").over(before))
        .where(F.col("number") < F.col("after"))
        .select(*STREAM, "time_ns", "number", "after")
    )


def _with_incarnations(deliveries: DataFrame, events: DataFrame) -> DataFrame:
    consumer_ends = _ends(events, "consumer", EventKind.DISCONNECTED, EventKind.CANCELLED)
    return (
        deliveries.join(F.broadcast(consumer_ends), ["run", "consumer"], "left")
        .join(F.broadcast(_first_numbers(events)), ["run", "publisher"], "left")
        .withColumn("consumer_incarnation", _passed("ends", "time_ns"))
        .withColumn("publisher_incarnation", _passed("first_numbers", "number"))
    )


def _ends(events: DataFrame, client: str, *kinds: EventKind) -> DataFrame:
    """Return the end times of the incarnations of each publisher or consumer."""
    return (
        events.where(F.col("kind").isin([kind.value for kind in kinds]) & F.col(client).isNotNull())
        .groupBy("run", client)
        .agg(F.collect_set("time_ns").alias("ends"))
    )


def _first_numbers(events: DataFrame) -> DataFrame:
    """Return the lowest number in each later incarnation of a publisher, for publishers with more than
    one."""
    ends = _ends(events, "publisher", EventKind.DISCONNECTED)
    return (
        events.where((F.col("kind") == EventKind.ATTEMPTED.value) & F.col("number").isNotNull())
        .join(F.broadcast(ends), ["run", "publisher"])
        .withColumn("incarnation", _passed("ends", "time_ns"))
        .where(F.col("incarnation") > 0)
        .groupBy("run", "publisher", "incarnation")
        .agg(F.min("number").alias("first_number"))
        .groupBy("run", "publisher")
        .agg(F.collect_list("first_number").alias("first_numbers"))
    )


def _passed(marks: str, value: str) -> Column:
    """Count the marks of an array that are not above a value; 0 without an array."""
    return F.coalesce(F.size(F.filter(marks, lambda mark: mark <= F.col(value))), F.lit(0))
