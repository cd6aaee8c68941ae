"""Archive job: queues into Parquet files or a Delta table, exactly once (`mirrormq pipeline archive`).

Every batch of the stream is written to its own directories, `date=…/queue=…/batch=QUERY.NUMBER`. A repeated
batch replaces them. A crash therefore never leaves a message twice. Any Parquet reader can use the archive:
there is no log beside the files that it would have to know.

Many batches make many small files. Compaction merges the batches of a directory into one,
`batch=QUERY.FIRST-LAST`, and then deletes the merged ones; `archive_upkeep.py` runs it, also while the query
runs. If it is interrupted between the two steps, a directory inside the range of another one is redundant by
its name, and the next compaction deletes it.

Over Spark Connect neither is possible, because batches are written without access to the id of their query.
The job then uses Spark's own Parquet sink, whose log in `_spark_metadata` lists the valid files.

`delta.py` and `iceberg.py` describe the archive as a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mirrormq.spark.data_source_options import COLUMNS, ON_REQUEST
from mirrormq.spark.jobs import delta, iceberg
from mirrormq.spark.jobs.archive_upkeep import ArchiveUpkeep, retention_days
from mirrormq.spark.jobs.batch_boundary import BatchBoundary
from mirrormq.spark.jobs.compaction import FirstOpenBatch
from mirrormq.spark.jobs.login import check_login
from mirrormq.spark.jobs.query_progress import follow
from mirrormq.spark.jobs.reporter import DONE, JobReporter
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import DEFAULT_MASTER, session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from mirrormq.spark.data_source_options import SourceOptions

CHECKPOINT = "_checkpoint"
"""Directory inside the archive; readers skip names with a leading underscore."""

PARTITION_COLUMNS = ("date", "queue")
"""Columns of an archive's directories unless others are given."""
PARTITION_CHOICES = ("date", "hour", "queue")

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
TABLES = {DELTA: delta, ICEBERG: iceberg}
"""Modules of the formats that are tables."""

UNITS = {
    "m": "minutes", "s": "seconds", "h": "hours", "ms": "milliseconds",
    "minute": "minutes", "second": "seconds", "hour": "hours", "millisecond": "milliseconds",
}  # fmt: skip

BATCH_DIGITS = 12
"""Digits of a batch number: names sort like numbers."""

QUERY_PROPERTY = "sql.streaming.queryId"
QUERY_DIGITS = 8
"""Digits of the query's id, which its checkpoint keeps: enough to keep two queries of one archive apart."""


@dataclass(frozen=True)
class ArchiveOptions:
    """Options of `mirrormq pipeline archive`."""

    uri: str
    queues: str
    """Regular expression of queue names."""
    to: str
    partition_by: tuple[str, ...] = PARTITION_COLUMNS
    once: bool = False
    trigger: str = "10s"
    compact: bool = False
    source: Mapping[str, str] = field(default_factory=dict)
    """Further options of the source."""
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)
    file_format: str = PARQUET
    retention: str | None = None
    """Time after which days are deleted, such as 30d."""
    upkeep: str = "10m"
    """Interval of compaction and retention while the archive runs."""
    typed_headers: bool = False
    """Whether to keep the types of headers."""

    @property
    def given(self) -> dict[str, str]:
        """Options of the source."""
        found = {"uri": self.uri, "queuePattern": self.queues, **self.source}
        if self.typed_headers:
            found["columns"] = ",".join((*COLUMNS, *ON_REQUEST))
        return found

    @property
    def remote(self) -> bool:
        """Whether Spark is behind a Connect address."""
        return self.master.startswith("sc://")


def archived(messages: DataFrame, partition_by: Sequence[str] = PARTITION_COLUMNS) -> DataFrame:
    """Add the archive's date to messages, and the hour if it is asked for.

    The time is that of the ingestion, otherwise of the batch. A publisher may set any `timestamp`, and the
    retention deletes by the date.
    """
    from pyspark.sql import functions as f

    known = ["ingestion_time"] if "ingestion_time" in messages.columns else []
    # In a stream the current time is the batch's, and equal when the batch is repeated.
    time = f.coalesce(*known, f.current_timestamp())
    found = messages.withColumn("date", f.to_date(time))
    return found.withColumn("hour", f.date_format(time, "HH")) if "hour" in partition_by else found


def query_of(messages: DataFrame) -> str:
    """Return the id of a batch's query, which its checkpoint keeps."""
    query = messages.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if query is None:
        raise RuntimeError("Spark did not provide the id of the query")
    return query


def write_batch(messages: DataFrame, batch: int, to: str, partition_by: Sequence[str]) -> None:
    """Write a batch and replace the output of an earlier attempt."""
    from pyspark.sql import functions as f

    query = query_of(messages)[:QUERY_DIGITS]
    numbered = messages.withColumn("batch", f.lit(f"{query}.{batch:0{BATCH_DIGITS}}"))
    writer = numbered.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*partition_by, "batch").parquet(to)


def run(options: ArchiveOptions) -> int:
    """Archive until stopped, or once; return the number of messages."""
    check_login(check(options).addresses)
    with session_for("mirrormq archive", options.master, options.settings) as spark:
        return archive(spark, options)


def archive(spark: SparkSession, options: ArchiveOptions) -> int:
    """Archive with an existing session."""
    from mirrormq.spark import register

    read = check(options)
    register(spark)
    source = spark.readStream.format("mirrormq").options(**options.given).load()
    messages = archived(source, options.partition_by)
    gate = BatchBoundary()
    upkeep = upkeep_of(options)
    stream = written(messages, options, gate, upkeep)
    stream = stream.option("checkpointLocation", f"{options.to.rstrip('/')}/{CHECKPOINT}")
    stream = (
        stream.trigger(availableNow=True)
        if options.once
        else stream.trigger(processingTime=interval(options.trigger))
    )
    with JobReporter(read.addresses, "archive", f"queues {options.queues} into {options.to}") as reporter:
        follower = follow(stream.start(), "archive", gate, reporter)
        if upkeep.is_needed:
            reporter.update("merging small files, deleting old ones")
            upkeep.run(spark)
        reporter.end(DONE, f"{follower.rows:,} messages archived in {options.to}")
    return follower.rows


def upkeep_of(options: ArchiveOptions) -> ArchiveUpkeep:
    """Return the upkeep that the options ask for."""
    return ArchiveUpkeep(
        options.to.rstrip("/"),
        in_delta=options.file_format == DELTA,
        compact=options.compact,
        retention_days=None if options.retention is None else retention_days(options.retention),
        interval_s=seconds(options.upkeep),
    )


def written(
    messages: DataFrame, options: ArchiveOptions, gate: BatchBoundary, upkeep: ArchiveUpkeep
) -> DataStreamWriter:
    """Return the stream writer for the requested format."""

    def write_files(batch: DataFrame, number: int) -> None:
        upkeep.before_batch(batch.sparkSession, FirstOpenBatch(query_of(batch)[:QUERY_DIGITS], number))
        write_batch(batch, number, options.to, options.partition_by)

    table = TABLES.get(options.file_format)
    if table is not None:

        def add_to_table(batch: DataFrame, number: int) -> None:
            upkeep.before_batch(batch.sparkSession, FirstOpenBatch(query_of(batch), number))
            table.write_batch(batch, query_of(batch), number, options.to, options.partition_by)

        return messages.writeStream.foreachBatch(gate.before(add_to_table))
    if options.remote:
        plain = messages.writeStream.format("parquet").partitionBy(*options.partition_by)
        return plain.option("path", options.to)
    return messages.writeStream.foreachBatch(gate.before(write_files))


def interval(text: str) -> str:
    """Convert an interval such as 10s, 500ms or 1 minute to Spark's notation."""
    found = re.fullmatch(r"(\d+) ?([a-z]+)", text)
    unit = UNITS.get(found[2]) or UNITS.get(found[2].removesuffix("s")) if found else None
    if found is None or unit is None:
        raise PipelineError(f"{text} is no interval such as 10s or 1 minute")
    return f"{found[1]} {unit}"


def seconds(text: str) -> float:
    """Convert an interval such as 10m to seconds."""
    number, unit = interval(text).split()
    return int(number) * {"milliseconds": 0.001, "seconds": 1, "minutes": 60, "hours": 3600}[unit]


def check(options: ArchiveOptions) -> SourceOptions:
    """Refuse invalid options before Spark starts."""
    from mirrormq.spark.data_source_options import source_options
    from mirrormq.spark.option_reader import OptionError

    unknown = [name for name in options.partition_by if name not in PARTITION_CHOICES]
    if unknown:
        raise PipelineError(f"--partition-by takes date, hour and queue, not {unknown[0]}")
    if "hour" in options.partition_by and "date" not in options.partition_by:
        raise PipelineError("--partition-by hour needs date: an hour of which day?")
    upkeep = upkeep_of(options)
    if upkeep.is_needed and options.remote:
        raise PipelineError(
            "--compact and --retention need a Spark of their own: use a --master other than sc://"
        )
    if upkeep.is_needed and options.file_format == ICEBERG:
        raise PipelineError(
            "--compact and --retention are for Parquet and Delta: use your Iceberg engine's maintenance"
        )
    if options.retention is not None and options.partition_by[:1] != ("date",):
        raise PipelineError("--retention deletes whole days: let --partition-by begin with date")
    if options.typed_headers and any(name.lower() == "columns" for name in options.source):
        raise PipelineError("--typed-headers adds a column to all others: leave --option columns out")
    interval(options.trigger)
    check_format(options)
    try:
        return source_options(options.given, streaming=True)
    except OptionError as error:
        raise PipelineError(str(error)) from None


def check_format(options: ArchiveOptions) -> None:
    """Refuse a format that differs from that of the existing archive."""
    wanted = options.file_format
    if wanted not in (PARQUET, *TABLES):
        raise PipelineError(f"--format {wanted} cannot be written: there is parquet, delta and iceberg")
    is_local = "://" not in options.to
    there = is_local and Path(options.to).is_dir()
    for name, module in TABLES.items():
        if there and name != wanted and module.is_table(options.to):
            raise PipelineError(f"{options.to} is a table of the format {name}: use --format {name}")
    if wanted == PARQUET:
        return
    table = TABLES[wanted]
    table.require()
    if options.remote:
        raise PipelineError(f"--format {wanted} needs a Spark of its own: use a --master other than sc://")
    if not is_local:
        raise PipelineError(
            f"--format {wanted} writes to a directory that all of Spark's machines have, not to {options.to}"
        )
    if there and not table.is_table(options.to) and any(Path(options.to).rglob("*.parquet")):
        raise PipelineError(f"{options.to} has Parquet files that are no table: name another directory")
