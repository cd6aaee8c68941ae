"""Replay job: publish an archive to exchanges, each message once (`mirrormq pipeline replay`).

The archive is published in slices, one directory after the other, oldest first. Each slice is one write under
its own name, with the messages in their original order: the broker recognises repeated ones. A file records
published slices. An interrupted replay begins with the slice at which it stopped, and the broker drops the
messages that it already has.

A replay at the original speed publishes the queues of a batch together, in the order of their time stamps:
one after the other each queue would have its own time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.spark.data_source_options import SinkOptions, sink_options
from mirrormq.spark.jobs import delta, iceberg
from mirrormq.spark.jobs.compaction import parse, superfluous
from mirrormq.spark.jobs.login import check_login
from mirrormq.spark.jobs.reporter import DONE, JobReporter
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.pipeline_errors import PipelineError, reason
from mirrormq.spark.progress_line import ProgressLine
from mirrormq.spark.sink.row_publishing import end_write
from mirrormq.spark.spark_session import DEFAULT_MASTER, session_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SLICE_COLUMNS = ("date", "hour", "queue", "batch")
SLICE_COLUMNS_IN_TIME = ("date", "hour", "batch")
"""Slice columns with --speed."""
MESSAGE_COLUMNS = (
    "body", "exchange", "routing_key", "content_type", "message_id", "timestamp", "headers",
    "headers_typed", "properties",
)  # fmt: skip
NAME_DIGITS = 16


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `mirrormq pipeline replay`."""

    uri: str
    source: str
    """Directory of the archive."""
    where: str | None = None
    exchange: str | None = None
    rate: str | None = None
    speed: str | None = None
    progress: Path | None = None
    routing_key: str | None = None
    queue: str | None = None
    """Queue to publish to, through the default exchange."""
    parallel: int = 1
    """Queues of the archive that are published at the same time."""
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)


class ReplaySlice(NamedTuple):
    """Part of the archive."""

    key: dict[str, str | None]
    messages: int
    first_s: float | None
    """Earliest time stamp in the slice."""

    @property
    def name(self) -> str:
        return "/".join(f"{name}={value}" for name, value in self.key.items()) or "all"


class ReplayProgress:
    """File of published slices."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            found = {"replay": uuid.uuid4().hex, "done": {}}
        except (OSError, ValueError) as error:
            raise PipelineError(f"the progress file {path} cannot be read: {error}") from None
        self.replay: str = found["replay"]
        self.done: dict[str, int] = found["done"]
        self._write()

    def add(self, slice_: ReplaySlice) -> None:
        self.done[slice_.name] = slice_.messages
        self._write()

    def _write(self) -> None:
        """Replace the file atomically: a crash leaves the old one or the new one."""
        draft = self._path.with_name(f".{self._path.name}.new")
        try:
            with draft.open("w") as file:
                json.dump({"replay": self.replay, "done": self.done}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except OSError as error:
            raise PipelineError(
                f"the progress file {self._path} cannot be written: {error.strerror}"
            ) from None


def messages_of(archive: DataFrame) -> DataFrame:
    """Return the columns of an archive that make a message to publish."""
    from pyspark.sql import functions as f

    found = archive.select([name for name in MESSAGE_COLUMNS if name in archive.columns])
    if "properties" in found.columns:
        # Brokers refuse a message whose user_id is another user.
        found = found.withColumn("properties", f.col("properties").dropFields("user_id"))
    return found


def read(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    """Return the part of the archive to publish, in any format."""
    table = next((each for each in (delta, iceberg) if each.is_table(options.source)), None)
    found = read_files(spark, options.source) if table is None else table.read_table(spark, options.source)
    return found.where(options.where) if options.where else found


def read_files(spark: SparkSession, source: str) -> DataFrame:
    """Read an archive of Parquet files with queue and batch names as text: Spark would parse a queue that is
    called 1e5, and batches like 12345678.000000000001, as numbers."""
    from pyspark.sql.types import StringType, StructField, StructType

    guessed = spark.read.parquet(source).schema
    fields = [
        StructField(each.name, StringType()) if each.name in ("queue", "batch") else each for each in guessed
    ]
    return spark.read.schema(StructType(fields)).parquet(source)


def slices(archive: DataFrame, in_time: bool = False) -> list[ReplaySlice]:
    """Return the slices of an archive, oldest first."""
    from pyspark.sql import functions as f

    wanted = SLICE_COLUMNS_IN_TIME if in_time else SLICE_COLUMNS
    columns = [name for name in wanted if name in archive.columns]
    stamp = f.min("timestamp") if "timestamp" in archive.columns else f.lit(None)
    rows = archive.groupBy(*columns).agg(f.count("*").alias("messages"), stamp.alias("first")).collect()
    found = [
        ReplaySlice(
            {name: None if row[name] is None else str(row[name]) for name in columns},
            row["messages"],
            None if row["first"] is None else row["first"].timestamp(),
        )
        for row in rows
        if row["messages"]
    ]
    return sorted(found, key=lambda each: (each.first_s or 0.0, each.name))


def part(archive: DataFrame, slice_: ReplaySlice, in_time: bool = False) -> DataFrame:
    """Return the messages of a slice, in one partition and in their order."""
    from pyspark.sql import functions as f

    found = archive
    for name, value in slice_.key.items():
        same: Column = f.col(name).isNull() if value is None else f.col(name).cast("string") == value
        found = found.where(same)
    wanted = ("timestamp", "queue", "sequence") if in_time else ("queue", "sequence")
    order: list[str] = [name for name in wanted if name in archive.columns] or ["body"]
    return found.coalesce(1).sortWithinPartitions(*order)


def run(options: ReplayOptions) -> int:
    """Publish the slices that are not published yet; return the number of messages."""
    check_login(check(options).addresses)
    with (
        ProgressLine(1, "replay") as line,
        session_for("mirrormq replay", options.master, options.settings) as spark,
    ):
        return replay(spark, options, line)


def replay(spark: SparkSession, options: ReplayOptions, line: ProgressLine | None = None) -> int:
    """Replay with an existing session."""
    from pyspark.errors import PySparkException

    from mirrormq.spark import register

    to = check(options)
    register(spark)
    notes = ReplayProgress(options.progress or progress_file(options))
    with JobReporter(to.addresses, "replay", f"from {options.source}") as reporter:
        try:
            count = publish(spark, options, notes, line or ProgressLine(1, "replay"), reporter)
        except PySparkException as error:
            raise PipelineError(f"the replay stopped: {reason(error)}") from None
        reporter.end(DONE, f"{count:,} messages published from {options.source}")
    return count


def publish(
    spark: SparkSession,
    options: ReplayOptions,
    notes: ReplayProgress,
    line: ProgressLine,
    reporter: JobReporter,
) -> int:
    """Publish slice by slice, several queues at the same time if asked for; return the number of messages."""
    in_time = options.speed is not None
    archive = read(spark, options)
    left = [each for each in slices(archive, in_time) if each.name not in notes.done]
    check_uncompacted(left, notes)
    # Slices of a queue follow each other; queues have no order among them.
    lanes: dict[str | None, list[ReplaySlice]] = {}
    for each in left:
        lanes.setdefault(each.key.get("queue"), []).append(each)
    workers = max(1, min(options.parallel, len(lanes)))
    given = sink(options, workers)
    if in_time and left:
        given |= {"speedOrigin": f"{left[0].first_s or 1:.6f}", "speedStart": f"{time.time():.6f}"}
    line.steps = len(left)
    publisher = SlicePublisher(archive, given, notes, line, reporter, in_time)
    if workers == 1:
        publisher.publish(left)
    else:
        with ThreadPoolExecutor(workers) as pool:
            # Reading the results raises the first error, after the other queues have ended their slices.
            list(pool.map(publisher.publish, lanes.values()))
    return publisher.count


class SlicePublisher:
    """Publisher of slices in one or more threads."""

    def __init__(
        self,
        archive: DataFrame,
        given: Mapping[str, str],
        notes: ReplayProgress,
        line: ProgressLine,
        reporter: JobReporter,
        in_time: bool,
    ) -> None:
        self.count = 0
        """Messages published."""
        self._archive = archive
        self._given = given
        self._notes = notes
        self._line = line
        self._reporter = reporter
        self._in_time = in_time
        self._number = 0
        self._failed = False
        self._lock = threading.Lock()
        """Guards everything that threads share."""

    def publish(self, lane: Sequence[ReplaySlice]) -> None:
        """Publish slices one after the other, until a slice of any thread fails."""
        # Spark looks a format up in the session that is active in the thread, and this makes it active.
        self._archive.sparkSession.createDataFrame([], "nothing int")
        for each in lane:
            if self._failed:
                return
            self._begin(each)
            found = messages_of(part(self._archive, each, self._in_time))
            writer = found.write.format("mirrormq").mode("append").options(**self._given)
            write = f"{self._notes.replay}/{digest(each.name)}"
            try:
                writer.option("writeId", write).save()
            except BaseException:
                self._failed = True
                raise
            with self._lock:
                self._notes.add(each)
                self.count += each.messages
                self._report(each)
            end_write(sink_options(self._given), write)

    def _begin(self, slice_: ReplaySlice) -> None:
        with self._lock:
            self._number += 1
            self._report(slice_)

    def _report(self, slice_: ReplaySlice) -> None:
        text = f"{slice_.name}, {self.count:,} messages so far"
        self._line.update(self._number, text)
        numbers = {"messages": self.count, "slice": self._number, "slices": self._line.steps}
        self._reporter.update(text, numbers)


def check_uncompacted(left: list[ReplaySlice], notes: ReplayProgress) -> None:
    """Refuse an archive that was compacted since: merged batches form another slice than the published
    ones."""
    done = [(name.rpartition("/")[0], found) for name in notes.done if (found := parse(f"/{name}"))]
    for each in left:
        place, slice_ = each.name.rpartition("/")[0], parse(f"/{each.name}")
        for other, published in done:
            if slice_ and other == place and superfluous([slice_, published]) == [published]:
                raise PipelineError(
                    f"the archive was compacted since this replay began ({each.name} is partly published):"
                    " replay what is left with --where and another --progress file"
                )


def digest(text: str) -> str:
    """Return a short name for a long one."""
    return hashlib.sha256(text.encode()).hexdigest()[:NAME_DIGITS]


def sink(options: ReplayOptions, writes: int = 1) -> dict[str, str]:
    """Return the options of the writes; the rate is divided among `writes` at the same time."""
    found = {"uri": options.uri}
    if options.queue is not None:
        found |= {"exchange": "", "routingKey": options.queue}
    if options.exchange is not None:
        found["exchange"] = options.exchange
    if options.routing_key is not None:
        found["routingKey"] = options.routing_key
    if options.rate is not None:
        matched = re.fullmatch(r"(\d+(?:\.\d+)?)(/s)?", options.rate)
        if matched is None:
            raise PipelineError(f"--rate {options.rate} is no rate such as 1000/s")
        found["rate"] = matched[1] if writes == 1 else repr(float(matched[1]) / writes)
    if options.speed is not None:
        matched = re.fullmatch(r"(\d+(?:\.\d+)?)x?(-of-original)?", options.speed)
        if matched is None:
            raise PipelineError(f"--speed {options.speed} is no speed such as 2x")
        found["speed"] = matched[1]
    return found


def progress_file(options: ReplayOptions) -> Path:
    """Return the default progress file, beside the archive's data and separate for each kind of replay."""
    what: list[Any] = [options.where, options.exchange, sorted(re.findall(r"@([^/,]+)", options.uri))]
    if options.speed is not None:
        what.append("in time")
    what += [
        [name, value]
        for name, value in (("key", options.routing_key), ("queue", options.queue))
        if value is not None
    ]
    return Path(options.source) / f"_replay-{digest(json.dumps(what))}.json"


def check(options: ReplayOptions) -> SinkOptions:
    """Refuse invalid options before Spark starts."""
    if options.queue is not None and (options.exchange is not None or options.routing_key is not None):
        raise PipelineError("--queue is a target of its own: leave --exchange and --routing-key out")
    if options.parallel < 1:
        raise PipelineError(f"--parallel {options.parallel} is no number of queues from 1 on")
    if options.parallel > 1 and options.speed is not None:
        raise PipelineError("--speed keeps the times of all queues together: leave --parallel out")
    try:
        found = sink_options(sink(options))
    except OptionError as error:
        raise PipelineError(str(error)) from None
    if "://" in options.source:
        if options.progress is None:
            raise PipelineError(
                "--progress is needed for an archive that is not on this machine: name a file"
            )
    elif options.master.startswith("local") and not Path(options.source).is_dir():
        raise PipelineError(f"there is no archive at {options.source}: give --from the directory of one")
    return found
