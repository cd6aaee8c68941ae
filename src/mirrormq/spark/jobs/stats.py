"""Statistics job: traffic of the cluster by window (`mirrormq pipeline stats`).

A separate queue collects traces and events (`traces.py`). The stream consumes that queue, counts in windows,
and writes each complete window to Parquet. The latest ones are also in `summary.json`, and on the cluster's
Pipeline page.

Traces carry no time; they get the time of the ticks between which they lie. Traces from a time when no job
ran lie between ticks far apart, and get some time between these. If publishers set the header
`timestamp_in_ms`, as RabbitMQ's plugin does, the age of a delivery is known too, with the precision of the
tick interval.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.jobs.archive import CHECKPOINT, interval, write_batch
from mirrormq.spark.jobs.batch_boundary import BatchBoundary
from mirrormq.spark.jobs.login import check_login
from mirrormq.spark.jobs.query_progress import follow
from mirrormq.spark.jobs.reporter import JobReporter
from mirrormq.spark.jobs.timing import timed
from mirrormq.spark.jobs.traces import EVENTS, TICK, TRACE, Ticker, prepare
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import DEFAULT_MASTER, session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "mirrormq.stats"

TICK_S = 0.02
"""Interval of ticks, which is the precision of times: fifty small messages a second."""

LATE = "2 seconds"
"""Time that a window waits for late traces."""

SUMMARY = "summary.json"
SUMMARY_ROWS_MAX = 500
SETTINGS = {"spark.sql.shuffle.partitions": "4"}
"""There is little to count: many partitions would only cost time."""


@dataclass(frozen=True)
class StatsOptions:
    """Options of `mirrormq pipeline stats`."""

    uri: str
    to: str
    window: str = "10s"
    once: bool = False
    trigger: str = "5s"
    queue: str = QUEUE
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)


def observations(messages: DataFrame) -> DataFrame:
    """Return traces and events as rows: time, kind, queue, node, size_bytes, redelivered, age_ms. The rows
    include our own ticks, which advance the watermark when nothing else happens."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType, LongType, StructField, StructType

    header = messages["headers"].getItem
    traced, key = f.col("exchange") == TRACE, f.col("routing_key")
    published, delivered = traced & key.startswith("publish."), traced & key.startswith("deliver.")
    routed = f.from_json(header("routed_queues"), "array<string>")
    queues = f.when(published, routed).when(delivered, f.array(f.substring(key, 9, 1000)))
    properties = header("properties")
    ours = (f.col("properties.type") == TICK) | (f.get_json_object(properties, "$.type") == TICK)
    rows = messages.select(
        f.coalesce(ours, f.lit(False)).alias("ours"),
        f.when(f.col("properties.type") == TICK, f.get_json_object(f.col("body").cast("string"), "$.time_ms"))
        .cast("long")
        .alias("tick_ms"),
        f.when(published, "published").when(delivered, "delivered").otherwise(key).alias("kind"),
        queues.alias("queues"),
        header("node").alias("node"),
        f.when(traced, f.octet_length("body")).cast("long").alias("size_bytes"),
        (header("redelivered") == "1").alias("redelivered"),
        f.when(delivered, f.get_json_object(properties, "$.headers.timestamp_in_ms").cast("long")).alias(
            "stamp_ms"
        ),
    )
    now_ms = f.unix_millis(f.current_timestamp())
    added = [StructField("time_ms", LongType()), StructField("exact", BooleanType())]
    age = f.greatest(f.col("time_ms") - f.col("stamp_ms"), f.lit(0))
    return rows.mapInArrow(timed, StructType([*rows.schema.fields, *added])).select(
        f.timestamp_millis(f.coalesce("time_ms", now_ms)).alias("time"),
        "ours",
        "kind",
        f.explode_outer("queues").alias("queue"),
        "node",
        "size_bytes",
        "redelivered",
        # `greatest` skips nulls: without the header it would give an age of 0.
        f.when(f.col("exact") & f.col("stamp_ms").isNotNull(), age).alias("age_ms"),
    )


def windows(observed: DataFrame, length: str) -> DataFrame:
    """Count by window, kind, queue and node; a window is emitted when it is complete."""
    from pyspark.sql import functions as f

    counted = (
        observed.withWatermark("time", LATE)
        # The time is in the condition to keep Spark from dropping the ticks before the watermark sees them.
        .where("not ours or time is null")
        .groupBy(f.window("time", length), "kind", "queue", "node")
        .agg(
            f.count("*").alias("messages"),
            f.sum("size_bytes").alias("bytes"),
            f.sum(f.col("redelivered").cast("long")).alias("redelivered"),
            f.percentile_approx("age_ms", [0.5, 0.95, 0.99]).alias("age_ms"),
            f.max("age_ms").alias("age_ms_max"),
        )
    )
    seconds = f.unix_seconds(f.col("window.end")) - f.unix_seconds(f.col("window.start"))
    return counted.select(
        f.col("window.start").alias("begin"), f.col("window.end").alias("end"), "kind", "queue", "node",
        "messages", "bytes", "redelivered", (f.col("messages") / seconds).alias("per_second"),
        f.col("age_ms").getItem(0).alias("age_ms_p50"),
        f.col("age_ms").getItem(1).alias("age_ms_p95"), f.col("age_ms").getItem(2).alias("age_ms_p99"),
        "age_ms_max", f.to_date("window.start").alias("date"),
    )  # fmt: skip


def run(options: StatsOptions) -> int:
    """Count until stopped, or once; return the number of traces and events."""
    check_login(check(options))
    with session_for("mirrormq stats", options.master, {**SETTINGS, **options.settings}) as spark:
        return stats(spark, options)


def stats(spark: SparkSession, options: StatsOptions) -> int:
    """Count with an existing session."""
    from mirrormq.spark import register

    addresses = check(options)
    register(spark)
    # The event exchange exists in the default vhost only.
    prepare(addresses, options.queue, (TRACE, EVENTS) if addresses[0].vhost == "/" else (TRACE,))
    source = spark.readStream.format("mirrormq").options(uri=options.uri, queue=options.queue)
    counted = windows(observations(source.load()), interval(options.window))
    directory = Path(options.to)

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.persist()
        write_batch(rows, number, str(directory / "windows"), ("date",))
        latest = rows.drop("date").orderBy("end", ascending=False).limit(SUMMARY_ROWS_MAX).collect()
        if latest:
            found = [row.asDict() for row in latest]
            summarise(directory / SUMMARY, found)
            reporter.update(rows=found)
        rows.unpersist()

    gate = BatchBoundary()
    stream = counted.writeStream.outputMode("append").foreachBatch(gate.before(write))
    stream = stream.option("checkpointLocation", str(directory / CHECKPOINT))
    when: dict[str, Any] = (
        {"availableNow": True} if options.once else {"processingTime": interval(options.trigger)}
    )
    with (
        JobReporter(addresses, "stats", f"windows of {options.window} into {options.to}") as reporter,
        Ticker(addresses, options.queue, TICK_S),
    ):
        return follow(stream.trigger(**when).start(), "stats", gate, reporter).rows


def check(options: StatsOptions) -> Sequence[AmqpUri]:
    """Refuse invalid options before Spark starts."""
    for text in (options.window, options.trigger):
        interval(text)
    if "://" in options.to:
        raise PipelineError(
            f"--to {options.to} must be a directory of this machine: the summary is written to it"
        )
    if options.master.startswith("sc://"):
        raise PipelineError("stats need a Spark of their own: use a --master other than sc://")
    try:
        return parse_uris(options.uri)
    except ValueError as error:
        raise PipelineError(str(error)) from None


def summarise(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the summary atomically: a reader never sees a partial one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(json.dumps({"written": time.time(), "windows": rows}, default=str))
    draft.replace(path)
