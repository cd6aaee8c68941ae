"""Queues into Parquet, each message once: `mirrormq pipeline archive`.

Every batch of the stream is written to directories of its own, `date=…/queue=…/batch=QUERY.NUMBER`, which a
batch that is written again replaces. So there is no moment at which a crash leaves a message twice, and any
reader of Parquet can use the archive: there is no log beside the files that it would have to know.

Many batches make many small files. Compaction puts the batches of a directory together into one,
`batch=QUERY.FIRST-LAST`, and then deletes those it is made of. If it dies between the two, whatever lies
inside the range of another directory is superfluous by its name, and is deleted at the next compaction.

Over Spark Connect neither is possible, because the batches are written where we cannot see what query they
belong to. There Spark's own Parquet sink is used, whose log in `_spark_metadata` says which files count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirrormq.spark.errors import PipelineError
from mirrormq.spark.jobs.streams import follow
from mirrormq.spark.session import DEFAULT_MASTER, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT = "_checkpoint"
"""Inside the archive; names with an underscore in front are not read as data."""

PARTITION_COLUMNS = ("date", "queue")

UNITS = {
    "m": "minutes", "s": "seconds", "h": "hours", "ms": "milliseconds",
    "minute": "minutes", "second": "seconds", "hour": "hours", "millisecond": "milliseconds",
}  # fmt: skip

BATCH_DIGITS = 12
"""So that names sort as numbers do."""

QUERY_PROPERTY = "sql.streaming.queryId"
QUERY_DIGITS = 8
"""Of the query's id, which its checkpoint keeps: enough that two queries into one archive do not meet."""


@dataclass(frozen=True)
class Options:
    """What `mirrormq pipeline archive` was asked to do."""

    uri: str
    queues: str
    """A regular expression."""
    to: str
    partition_by: tuple[str, ...] = PARTITION_COLUMNS
    once: bool = False
    trigger: str = "10s"
    compact: bool = False
    source: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)


def archived(messages: DataFrame) -> DataFrame:
    """Messages with the date they are archived under: of their time stamp, or else of their batch."""
    from pyspark.sql import functions as f

    # In a stream the current time is the batch's, and the same when the batch is run again.
    return messages.withColumn("date", f.to_date(f.coalesce("timestamp", f.current_timestamp())))


def write_batch(messages: DataFrame, batch: int, to: str, partition_by: Sequence[str]) -> None:
    """Write a batch in place of what an earlier attempt may have left of it."""
    from pyspark.sql import functions as f

    query = messages.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise RuntimeError("Spark did not say which query a batch is of")
    numbered = messages.withColumn("batch", f.lit(f"{query[:QUERY_DIGITS]}.{batch:0{BATCH_DIGITS}}"))
    writer = numbered.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*partition_by, "batch").parquet(to)


def run(options: Options) -> int:
    """Archive until stopped, or once; says how many messages it were."""
    check(options)
    spark = start_session("mirrormq archive", options.master, options.settings)
    try:
        return archive(spark, options)
    finally:
        spark.stop()


def archive(spark: SparkSession, options: Options) -> int:
    """The same with a session there is."""
    from mirrormq.spark import register
    from mirrormq.spark.jobs.compaction import compact

    register(spark)
    given = {"uri": options.uri, "queuePattern": options.queues, **options.source}
    messages = archived(spark.readStream.format("mirrormq").options(**given).load())

    def write(batch: DataFrame, number: int) -> None:
        write_batch(batch, number, options.to, options.partition_by)

    if options.master.startswith("sc://"):
        plain = messages.writeStream.format("parquet").partitionBy(*options.partition_by)
        stream = plain.option("path", options.to)
    else:
        stream = messages.writeStream.foreachBatch(write)
    stream = stream.option("checkpointLocation", f"{options.to.rstrip('/')}/{CHECKPOINT}")
    stream = (
        stream.trigger(availableNow=True)
        if options.once
        else stream.trigger(processingTime=interval(options.trigger))
    )
    follower = follow(stream.start(), "archive")
    if options.compact:
        compact(spark, options.to)
    return follower.rows


def interval(text: str) -> str:
    """An interval as Spark writes it, of one as people do: 10s, 500ms, 1 minute."""
    found = re.fullmatch(r"(\d+) ?([a-z]+)", text)
    unit = UNITS.get(found[2]) or UNITS.get(found[2].removesuffix("s")) if found else None
    if found is None or unit is None:
        raise PipelineError(f"--trigger {text} is no interval such as 10s or 1 minute")
    return f"{found[1]} {unit}"


def check(options: Options) -> None:
    """Say before Spark starts what can be seen to be wrong."""
    from mirrormq.spark.options import OptionError, source_options

    unknown = [name for name in options.partition_by if name not in PARTITION_COLUMNS]
    if unknown:
        raise PipelineError(f"--partition-by takes date and queue, not {unknown[0]}")
    if options.compact and options.master.startswith("sc://"):
        raise PipelineError("--compact needs a Spark of its own: use a --master other than sc://")
    interval(options.trigger)
    try:
        source_options({"uri": options.uri, "queuePattern": options.queues, **options.source}, streaming=True)
    except OptionError as error:
        raise PipelineError(str(error)) from None
