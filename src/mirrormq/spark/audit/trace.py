"""Traces as rows, and the outcome of each message as far as traces show it.

A hash of exchange, properties and body identifies a message. Messages that are equal in all of these are
counted together, as in a multiset; a message id lets each be judged separately. A numbered message
(`x-publish-id`) is stored once however often it is sent, and counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from mirrormq.spark.audit.ledger import GONE, JUDGED, LEASED, UNSEEN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TICK, ECHO, PUBLISHED, DELIVERED = "tick", "echo", "published", "delivered"

REPLIES = "amq.rabbitmq.reply-to"
"""Pseudo queue of direct replies, which pass through no queue."""

EXAMPLE_BYTES = 80
"""Length of a body excerpt."""

COUNTED = ("published", "ok", "lost", GONE, LEASED, UNSEEN, "duplicated", "unflagged", "before")

OPEN_SCHEMA = (
    "queue string, message long, numbered boolean, published long, delivered long, delivered_unflagged long,"
    " published_place long, last_place long, first_ms long, example string"
)


def observed(messages: DataFrame, own: str, trace: str, tick: str) -> DataFrame:
    """Return traces and ticks in the queue `own` as rows, with their places in it."""
    header = messages["headers"].getItem
    traced, key = F.col("exchange") == trace, F.col("routing_key")
    published, delivered = traced & key.startswith("publish."), traced & key.startswith("deliver.")
    routed = F.from_json(header("routed_queues"), "array<string>")
    properties = header("properties")
    ticking = F.get_json_object(properties, "$.type") == tick
    kind = (
        F.when(F.col("properties.type") == tick, TICK)
        .when(published & ticking & F.array_contains(routed, own), ECHO)
        .when(published, PUBLISHED)
        .when(delivered, DELIVERED)
    )
    # The broker removes the header BCC before delivery, which changes the hash: leave such messages out.
    hidden = F.get_json_object(properties, "$.headers.BCC").isNotNull()
    queues = F.when(published, routed).when(delivered, F.array(F.substring(key, 9, 1000)))
    rows = messages.select(
        F.col("sequence").alias("place"),
        kind.alias("kind"),
        F.when(~hidden, queues).alias("queues"),
        F.xxhash64(header("exchange_name"), properties, F.col("body")).alias("message"),
        F.get_json_object(properties, "$.headers['x-publish-id']").isNotNull().alias("numbered"),
        (header("redelivered") == "1").alias("redelivered"),
        F.coalesce(F.get_json_object(properties, "$.message_id"), start_of(F.col("body"))).alias("example"),
        F.when(kind.isin(TICK, ECHO), F.col("body").cast("string")).alias("tick"),
    )
    return rows.where("kind is not null")


def start_of(body: Column) -> Column:
    """Return an excerpt of a body: as text, or in hexadecimal digits if it is not text."""
    text = F.substring(F.try_validate_utf8(body.cast("string")), 1, EXAMPLE_BYTES)
    return F.coalesce(text, F.hex(F.substring(body, 1, EXAMPLE_BYTES // 2)))


def message_counts(rows: DataFrame, pattern: str) -> DataFrame:
    """Return publishes and deliveries of queues whose name matches, as rows like the pending ones."""
    published = F.col("kind") == PUBLISHED
    delivered = F.col("kind") == DELIVERED
    one, zero = F.lit(1).cast("long"), F.lit(0).cast("long")
    flagged = F.coalesce(F.col("redelivered"), F.lit(False))
    return (
        rows.where(published | delivered)
        .withColumn("queue", F.explode("queues"))
        .where(F.col("queue").rlike(f"^(?:{pattern})$") & ~F.col("queue").startswith(REPLIES))
        .select(
            "queue",
            "message",
            "numbered",
            F.when(published, one).otherwise(zero).alias("published"),
            F.when(delivered, one).otherwise(zero).alias("delivered"),
            F.when(delivered & ~flagged, one).otherwise(zero).alias("delivered_unflagged"),
            F.when(published, F.col("place")).alias("published_place"),
            F.col("place").alias("last_place"),
            F.lit(None).cast("long").alias("first_ms"),
            "example",
        )
    )


def merged(kept: DataFrame, new: DataFrame, now_ms: int) -> DataFrame:
    """Merge pending and new rows into one row per message."""
    return (
        kept.unionByName(new.withColumn("first_ms", F.lit(now_ms).cast("long")))
        .groupBy("queue", "message")
        .agg(
            F.max("numbered").alias("numbered"),
            F.sum("published").alias("published"),
            F.sum("delivered").alias("delivered"),
            F.sum("delivered_unflagged").alias("delivered_unflagged"),
            F.max("published_place").alias("published_place"),
            F.max("last_place").alias("last_place"),
            F.min("first_ms").alias("first_ms"),
            F.min("example").alias("example"),
        )
    )


def judged(messages: DataFrame, verdicts: DataFrame, settled: int, blind: int) -> DataFrame:
    """Add the column `fate`, null while a message is pending, and the classes.

    `verdicts` gives per queue the place up to which messages can be judged. A delivery without a publish is
    dropped when it is older than the grace period (`settled`).
    """
    zero = F.lit(0).cast("long")
    sent = F.col("published") > 0
    ripe = sent & (F.col("published_place") <= F.col("until"))
    late = ~sent & (F.col("last_place") <= settled)
    fate = (
        F.when(ripe & (F.col("published_place") <= blind), UNSEEN)
        .when(ripe, F.col("verdict"))
        .when(late, JUDGED)
    )
    attempts = _attempts()
    missing = F.greatest(attempts - F.col("delivered"), zero)
    again = F.when(sent, F.greatest(F.col("delivered") - attempts, zero)).otherwise(zero)
    unflagged = F.when(sent, F.greatest(F.col("delivered_unflagged") - attempts, zero)).otherwise(zero)
    classes = {
        "ok": F.least(F.col("delivered"), attempts),
        "lost": F.when(F.col("fate") == JUDGED, missing).otherwise(zero),
        **{name: F.when(F.col("fate") == name, missing).otherwise(zero) for name in (GONE, LEASED, UNSEEN)},
        "duplicated": again,
        "unflagged": F.when(F.col("fate") == JUDGED, unflagged).otherwise(zero),
        "before": F.when(sent, zero).otherwise(F.col("delivered")),
    }
    known = messages.join(F.broadcast(verdicts), "queue", "left")
    return known.withColumn("fate", fate).withColumns(classes).drop("until", "verdict")


def followed(messages: DataFrame) -> DataFrame:
    """Count pending messages by queue: delivered ones, and undelivered ones."""
    out = F.least(F.col("delivered"), _attempts())
    return (
        messages.where("fate is null and published > 0")
        .groupBy("queue")
        .agg(F.sum(out).alias("out"), F.sum(_attempts() - out).alias("waiting"))
    )


def _attempts() -> Column:
    """Return how often a message must be delivered: a numbered one is stored once however often it is
    sent."""
    once = F.col("numbered") & (F.col("published") > 0)
    return F.when(once, F.lit(1)).otherwise(F.col("published")).cast("long")


def counted(done: DataFrame) -> DataFrame:
    """Sum the classes of judged messages by queue."""
    return done.groupBy("queue").agg(*(F.sum(name).alias(name) for name in COUNTED))
