"""What flows through the cluster, by window: `mirrormq pipeline stats`.

A queue of our own is bound to the exchanges on which the broker tells what happens: `amq.rabbitmq.trace` has
a copy of every publish and delivery while tracing is on (`mirrormqctl trace_on`), `amq.rabbitmq.event` what
happens to connections, queues and users. The stream consumes that queue, counts in windows, and writes each
window to Parquet when it is over; the latest ones are also in `summary.json`.

Traces carry no time of their own, so a window is one of the time at which a batch was taken, which is the
same if the batch is run again. If publishers give messages the header `timestamp_in_ms`, as RabbitMQ's plugin
for it does, the age of deliveries is known too: the time from publish until the delivery was counted. It is
the latency and up to one trigger more, so a bound and no measurement.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.spark.client.address import Address, parse_uris
from mirrormq.spark.client.errors import BrokerError
from mirrormq.spark.client.nodes import Nodes
from mirrormq.spark.errors import PipelineError
from mirrormq.spark.jobs.archive import CHECKPOINT, interval, write_batch
from mirrormq.spark.jobs.streams import follow
from mirrormq.spark.session import DEFAULT_MASTER, start_session
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACE, EVENTS = "amq.rabbitmq.trace", "amq.rabbitmq.event"
QUEUE = "mirrormq.stats"
QUEUE_MESSAGES_MAX = 1_000_000
"""What is kept while no job runs; older traces are dropped."""

SUMMARY = "summary.json"
SUMMARY_ROWS_MAX = 500
SETTINGS = {"spark.sql.shuffle.partitions": "4"}
"""There is little to count: many partitions would only cost time."""


@dataclass(frozen=True)
class Options:
    """What `mirrormq pipeline stats` was asked to do."""

    uri: str
    to: str
    window: str = "10s"
    once: bool = False
    trigger: str = "5s"
    queue: str = QUEUE
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)


def prepare(uri: str, queue: str) -> None:
    """Declare the queue and bind it."""
    addresses: tuple[Address, ...] = parse_uris(uri)
    arguments = table_of({"x-max-length": QUEUE_MESSAGES_MAX, "x-overflow": "drop-head"})
    try:
        with Nodes(addresses).connect() as connection:
            declare = methods.encode_queue_declare(queue, durable=True, arguments=arguments)
            connection.call(declare, methods.QUEUE_DECLARE_OK)
            # Events are told in the default vhost only.
            for exchange in (TRACE, EVENTS) if addresses[0].vhost == "/" else (TRACE,):
                connection.call(methods.encode_queue_bind(queue, exchange, "#"), methods.QUEUE_BIND_OK)
    except BrokerError as error:
        raise PipelineError(f"the queue {queue} cannot be prepared: {error}") from None


def observations(messages: DataFrame) -> DataFrame:
    """Traces and events as rows: time, kind, queue, node, size_bytes, redelivered, age_ms."""
    from pyspark.sql import functions as f

    header = messages["headers"].getItem
    traced, key = f.col("exchange") == TRACE, f.col("routing_key")
    published, delivered = traced & key.startswith("publish."), traced & key.startswith("deliver.")
    routed = f.from_json(header("routed_queues"), "array<string>")
    queues = f.when(published, routed).when(delivered, f.array(f.substring(key, 9, 1000)))
    stamp = f.get_json_object(header("properties"), "$.headers.timestamp_in_ms").cast("long")
    now = f.current_timestamp()
    return messages.select(
        now.alias("time"),
        f.when(published, "published").when(delivered, "delivered").otherwise(key).alias("kind"),
        f.explode_outer(queues).alias("queue"),
        header("node").alias("node"),
        f.when(traced, f.octet_length("body")).alias("size_bytes"),
        (header("redelivered") == "1").alias("redelivered"),
        f.when(delivered, f.unix_millis(now) - stamp).alias("age_ms"),
    )


def windows(observed: DataFrame, length: str) -> DataFrame:
    """Counted by window, kind, queue and node; a window is given out when it is over."""
    from pyspark.sql import functions as f

    counted = (
        observed.withWatermark("time", "0 seconds")
        .groupBy(f.window("time", length), "kind", "queue", "node")
        .agg(
            f.count("*").alias("messages"),
            f.sum("size_bytes").alias("bytes"),
            f.sum(f.col("redelivered").cast("long")).alias("redelivered"),
            f.percentile_approx("age_ms", [0.5, 0.99]).alias("age_ms"),
        )
    )
    seconds = f.unix_seconds(f.col("window.end")) - f.unix_seconds(f.col("window.start"))
    return counted.select(
        f.col("window.start").alias("begin"), f.col("window.end").alias("end"), "kind", "queue", "node",
        "messages", "bytes", "redelivered", (f.col("messages") / seconds).alias("per_second"),
        f.col("age_ms").getItem(0).alias("age_ms_p50"),
        f.col("age_ms").getItem(1).alias("age_ms_p99"), f.to_date("window.start").alias("date"),
    )  # fmt: skip


def run(options: Options) -> int:
    """Count until stopped, or once; says how many traces and events it were."""
    for text in (options.window, options.trigger):
        interval(text)
    if "://" in options.to:
        raise PipelineError(
            f"--to {options.to} must be a directory of this machine: the summary is written to it"
        )
    if options.master.startswith("sc://"):
        raise PipelineError("stats need a Spark of their own: use a --master other than sc://")
    spark = start_session("mirrormq stats", options.master, {**SETTINGS, **options.settings})
    try:
        return stats(spark, options)
    finally:
        spark.stop()


def stats(spark: SparkSession, options: Options) -> int:
    """The same with a session there is."""
    from mirrormq.spark import register

    register(spark)
    prepare(options.uri, options.queue)
    source = spark.readStream.format("mirrormq").options(uri=options.uri, queue=options.queue)
    counted = windows(observations(source.load()), interval(options.window))
    directory = Path(options.to)

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.persist()
        write_batch(rows, number, str(directory / "windows"), ("date",))
        latest = rows.drop("date").orderBy("end", ascending=False).limit(SUMMARY_ROWS_MAX).collect()
        if latest:
            summarise(directory / SUMMARY, [row.asDict() for row in latest])
        rows.unpersist()

    stream = counted.writeStream.outputMode("append").foreachBatch(write)
    stream = stream.option("checkpointLocation", str(directory / CHECKPOINT))
    when: dict[str, Any] = (
        {"availableNow": True} if options.once else {"processingTime": interval(options.trigger)}
    )
    return follow(stream.trigger(**when).start(), "stats").rows


def summarise(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the summary as a whole, so that whoever shows it never sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(json.dumps({"written": time.time(), "windows": rows}, default=str))
    draft.replace(path)
