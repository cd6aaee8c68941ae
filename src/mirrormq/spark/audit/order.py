"""Messages that overtook others of their publisher.

AMQP keeps the order of one channel's publishes on their way through one queue to one consumer. What was
delivered before and comes again (flagged), and what the publisher sent again, is free to come later. So
among the other deliveries of one publisher in one queue to one consumer, a number that is lower than
one before it is an inversion. It needs no more than the highest number so far, over rows sorted by
time; Spark sorts on disk what does not fit in memory.

A client may lose its connection and go on under the same number: that is a new *life* of it, and between
two lives nothing is promised. A consumer's life ends with `disconnected` or `cancelled`. A publisher's
ends with `disconnected`; a delivered message belongs to the life in whose range its number lies, where a
life's range begins at the lowest number attempted in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from mirrormq.history import EventKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STREAM = ("run", "queue", "consumer", "publisher")
INCARNATIONS = ("consumer_life", "publisher_life")


def inversions(events: DataFrame, *, incarnations: bool = True) -> DataFrame:
    """Each delivery that came after one with a higher number, which stands in `after`.

    Who knows that nobody lost a connection or was cancelled says lives=False and saves some work.
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
        .withColumn("consumer_life", _passed("ends", "time_ns"))
        .withColumn("publisher_life", _passed("first_numbers", "number"))
    )


def _ends(events: DataFrame, client: str, *kinds: EventKind) -> DataFrame:
    """When the lives of each publisher or consumer ended."""
    return (
        events.where(F.col("kind").isin([kind.value for kind in kinds]) & F.col(client).isNotNull())
        .groupBy("run", client)
        .agg(F.collect_set("time_ns").alias("ends"))
    )


def _first_numbers(events: DataFrame) -> DataFrame:
    """The lowest number in each later life of a publisher, for publishers that had more than one."""
    ends = _ends(events, "publisher", EventKind.DISCONNECTED)
    return (
        events.where((F.col("kind") == EventKind.ATTEMPTED.value) & F.col("number").isNotNull())
        .join(F.broadcast(ends), ["run", "publisher"])
        .withColumn("life", _passed("ends", "time_ns"))
        .where(F.col("life") > 0)
        .groupBy("run", "publisher", "life")
        .agg(F.min("number").alias("first_number"))
        .groupBy("run", "publisher")
        .agg(F.collect_list("first_number").alias("first_numbers"))
    )


def _passed(marks: str, value: str) -> Column:
    """How many of an array's marks are not above a value; none without an array."""
    return F.coalesce(F.size(F.filter(marks, lambda mark: mark <= F.col(value))), F.lit(0))
