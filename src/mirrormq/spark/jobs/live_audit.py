"""Live audit: judge a running cluster (`mirrormq pipeline audit --live`).

A queue collects the firehose's traces and our ticks (`traces.py`). Each batch of the stream is merged with
the pending messages. Messages that can be judged (`audit.ledger`) are counted and dropped. The state is
therefore as large as the queues' contents, however long the audit runs.

After batch N, `open-N` has the pending messages and `book-N.json` the rest: the ledger, the counts, the
findings. Both depend only on those of the batch before and the traces, hence a repeated batch gives the same
result. `book-N.json` is written last and marks the batch as complete.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.ranges import range_protocol
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.jobs.archive import CHECKPOINT, interval
from mirrormq.spark.jobs.audit_state import OPEN, AuditState, Finding
from mirrormq.spark.jobs.batch_boundary import BatchBoundary
from mirrormq.spark.jobs.login import check_login
from mirrormq.spark.jobs.query_progress import follow
from mirrormq.spark.jobs.reporter import DONE, FAILED, JobReporter
from mirrormq.spark.jobs.traces import TICK, TRACE, Ticker, delete, prepare
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.spark.spark_session import DEFAULT_MASTER, SHORT_WORK, session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICK_S = 1.0
"""Interval at which the extents of the queues are requested."""

QUEUES_PER_TICK_MAX = 500
"""Queues requested per tick: each costs a request to the broker. Further pending queues take turns."""

EXAMPLES_MAX = 5
"""Messages shown per finding."""

UNIT_S = {"milliseconds": 0.001, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0}

SETTINGS = {"spark.sql.shuffle.partitions": "4"}
"""A batch is some seconds of traces: many partitions would only cost time."""


@dataclass(frozen=True)
class LiveAuditOptions:
    """Options of `mirrormq pipeline audit --live`."""

    uri: str
    queues: str = ".*"
    """Regular expression of queue names."""
    report: Path | None = None
    duration: str | None = None
    trigger: str = "5s"
    grace: str = "5s"
    """Largest delay between traces of different nodes."""
    state: Path | None = None
    """Directory of the state, for a run that continues later."""
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)


class LiveAudit:
    """Audit that judges batch after batch."""

    def __init__(self, directory: Path, own: str, pattern: str, grace_ms: int) -> None:
        self.book = AuditState.new(grace_ms)
        self._directory = directory
        self._own = own
        self._pattern = pattern
        self._turn = 0

    # --- ticks -------------------------------------------------------------------------------------

    def note(self, range_client: RangeClient) -> dict[str, Any]:
        """Return the extents of the queues with pending messages, and the leased queues."""
        leases = range_protocol.read_leases(bytes(range_client.ask(range_protocol.leases()).body))
        names = sorted(self.book.waiting)
        if len(names) > QUEUES_PER_TICK_MAX:
            self._turn = (self._turn + QUEUES_PER_TICK_MAX) % len(names)
            names = (names[self._turn :] + names[: self._turn])[:QUEUES_PER_TICK_MAX]
        extents = {name: found for name in names if (found := _extent(range_client, name)) is not False}
        return {"queues": extents, "leased": sorted({lease.queue for lease in leases} - {self._own})}

    # --- batches -----------------------------------------------------------------------------------

    def batch(self, messages: DataFrame, number: int) -> list[Finding]:
        """Process a batch; return its findings."""
        from mirrormq.spark.audit import trace

        book = self._before(number)
        spark = messages.sparkSession
        kept = messages.persist()
        try:
            self._read_ticks(book, kept)
            rows = trace.observed(kept, self._own, TRACE, TICK)
            before = self._open(spark, number - 1)
            open_now = trace.merged(before, trace.message_counts(rows, self._pattern), book.time_ms)
            verdicts = spark.createDataFrame(
                [(v.queue, v.place, v.fate) for v in book.verdicts],
                "queue string, until long, verdict string",
            )
            settled, blind = book.ledger.settled, book.ledger.blind
            judged = trace.judged(open_now, verdicts, settled, blind).persist()
            try:
                found = self._count(book, judged)
                left = judged.where("fate is null").select(*before.columns)
                left.write.mode("overwrite").parquet(str(self._directory / f"open-{number}"))
            finally:
                judged.unpersist()
        finally:
            kept.unpersist()
        book.save(self._directory, number)
        self._tidy(number - 1)
        self.book = book
        return found

    def _before(self, number: int) -> AuditState:
        """Return a copy of the state after the previous batch: a batch that fails leaves it unchanged."""
        if number == 0:
            return AuditState.new(self.book.ledger.grace_ms)
        return AuditState.load(self._directory, number - 1)

    def _open(self, spark: SparkSession, number: int) -> DataFrame:
        from mirrormq.spark.audit.trace import OPEN_SCHEMA

        place = self._directory / f"open-{number}"
        if not place.exists():
            return spark.createDataFrame([], OPEN_SCHEMA)
        return spark.read.schema(OPEN_SCHEMA).parquet(str(place))

    def _read_ticks(self, book: AuditState, messages: DataFrame) -> None:
        from pyspark.sql import functions as f

        from mirrormq.spark.audit.ledger import EPOCH_BITS
        from mirrormq.spark.audit.trace import ECHO, observed
        from mirrormq.spark.audit.trace import TICK as A_TICK

        epochs = messages.groupBy(f.shiftright(f.col("sequence") - 1, EPOCH_BITS).alias("epoch"))
        places = epochs.agg(f.min("sequence"), f.max("sequence"), f.count("*")).collect()
        for _, first, last, count in sorted(places):
            book.seen(first, last, count)
        rows = observed(messages, self._own, TRACE, TICK)
        found = rows.where(f.col("kind").isin(A_TICK, ECHO)).select("place", "kind", "tick").collect()
        ticks = sorted((row.place, row.kind == ECHO, row.tick) for row in found)
        book.add_ticks([(place, echo, json.loads(text)) for place, echo, text in ticks])

    def _count(self, book: AuditState, judged: DataFrame) -> list[Finding]:
        from mirrormq.spark.audit import trace

        done = judged.where("fate is not null")
        counts = {row.queue: row.asDict() for row in trace.counted(done).collect()}
        bad = done.where("lost > 0 or unflagged > 0").orderBy("published_place").limit(100).collect()
        waiting = trace.followed(judged).collect()
        return book.add(
            counts,
            {row.queue: {name: row[name] for name in OPEN} for row in waiting},
            {name: [row.example for row in bad if row.queue == name][:EXAMPLES_MAX] for name in counts},
        )

    def _tidy(self, number: int) -> None:
        """Delete state older than the previous batch."""
        for old in range(max(0, number - 2), number):
            shutil.rmtree(self._directory / f"open-{old}", ignore_errors=True)
            AuditState.path(self._directory, old).unlink(missing_ok=True)


def _extent(range_client: RangeClient, queue: str) -> list[Any] | bool | None:
    """Return the extent of a queue; None if it does not exist, False if it is unavailable now."""
    try:
        extent = range_protocol.read_extent(range_client.ask(range_protocol.extent(queue)).headers)
    except RequestRefused as error:
        return None if error.reason == NO_QUEUE else False
    return [extent.first, extent.next, extent.id, extent.master]


def run(options: LiveAuditOptions, tell: Callable[[str], None] = print) -> AuditState:
    """Audit the cluster until stopped, or for the given time; report each finding at once."""
    check_login(check(options))
    settings = {**SETTINGS, **options.settings}
    if options.master.startswith("local"):
        key = "spark.driver.extraJavaOptions"
        settings[key] = f"{SHORT_WORK} {settings.get(key, '')}"
    with session_for("mirrormq audit", options.master, settings) as spark:
        return live_audit(spark, options, tell)


def live_audit(
    spark: SparkSession, options: LiveAuditOptions, tell: Callable[[str], None] = print
) -> AuditState:
    """Audit the cluster with an existing session."""
    from mirrormq.spark import register
    from mirrormq.spark.report.live_page import page

    addresses = check(options)
    register(spark)
    with _place(options, addresses) as (directory, own):
        prepare(addresses, own, (TRACE,))
        audit = LiveAudit(directory, own, options.queues, int(seconds(options.grace) * 1000))
        source = spark.readStream.format("mirrormq").options(uri=options.uri, queue=own)

        def judge(batch: DataFrame, number: int) -> None:
            for finding in audit.batch(batch, number):
                tell(f"{finding.kind.upper()}: {finding.sentence}")
            reporter.update(audit.book.verdict, audit.book.totals, _rows(audit.book))
            if options.report is not None:
                _replace(options.report, page(audit.book))

        gate = BatchBoundary()
        stream = source.load().writeStream.foreachBatch(gate.before(judge))
        stream = stream.option("checkpointLocation", str(directory / CHECKPOINT))
        stream = stream.trigger(processingTime=interval(options.trigger))
        with (
            JobReporter(addresses, "audit", f"queues {options.queues}, live") as reporter,
            Ticker(addresses, own, TICK_S, audit.note),
        ):
            for_s = math.inf if options.duration is None else seconds(options.duration)
            follow(stream.start(), "audit", gate, for_s=for_s, more=lambda: _line(audit.book))
            if not audit.book.time_ms:
                raise PipelineError(
                    "no batch was completed in that time: use a longer duration, or give Spark more cores"
                )
            if not audit.book.echoes:
                raise PipelineError("no traces arrived: turn tracing on with mirrormqctl trace_on")
            reporter.end(DONE if audit.book.passed else FAILED, audit.book.verdict)
    return audit.book


@contextmanager
def _place(options: LiveAuditOptions, addresses: Sequence[AmqpUri]) -> Iterator[tuple[Path, str]]:
    """Provide the state directory and the name of the trace queue; both are removed afterwards unless the
    option `state` is set."""
    if options.state is not None:
        options.state.mkdir(parents=True, exist_ok=True)
        named = options.state / "queue"
        if not named.exists():
            named.write_text(_new_name())
        yield options.state, named.read_text().strip()
        return
    own = _new_name()
    with tempfile.TemporaryDirectory(prefix="mirrormq-audit-") as directory:
        try:
            yield Path(directory), own
        finally:
            delete(addresses, own)


def _new_name() -> str:
    return f"mirrormq.audit.{uuid.uuid4().hex[:12]}"


def _line(book: AuditState) -> str:
    totals = book.totals
    return f": {totals['ok'] + totals['out']:,} out, {totals['waiting']:,} waiting, {totals['lost']:,} lost"


def _rows(book: AuditState) -> list[dict[str, Any]]:
    worst = sorted(book.queues.items(), key=lambda item: [-item[1][name] for name in ("lost", "published")])
    return [{"queue": name, **counts} for name, counts in worst]


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically: a reader never sees a partial one."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def seconds(text: str) -> float:
    """Return an interval in seconds."""
    number, unit = interval(text).split()
    return int(number) * UNIT_S[unit]


def check(options: LiveAuditOptions) -> Sequence[AmqpUri]:
    """Refuse invalid options before Spark starts."""
    for text in (options.trigger, options.grace, options.duration or "1s"):
        interval(text)
    try:
        re.compile(options.queues)
    except re.error as error:
        raise PipelineError(f"--queues is no regular expression: {error}") from None
    if options.master.startswith("sc://"):
        raise PipelineError("a live audit needs a Spark of its own: use a --master other than sc://")
    if options.report is not None and not options.report.absolute().parent.is_dir():
        where = options.report.absolute().parent
        raise PipelineError(f"the report cannot be written: there is no directory {where}")
    try:
        return parse_uris(options.uri)
    except ValueError as error:
        raise PipelineError(str(error)) from None
