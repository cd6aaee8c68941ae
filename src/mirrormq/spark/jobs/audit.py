"""Audit job: read a history, judge it, write the report, and return an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.node_address import parse_uris
from mirrormq.spark.jobs.reporter import DONE, JobReporter
from mirrormq.spark.jobs.reporter import FAILED as NOT_PASSED
from mirrormq.spark.pipeline_errors import PipelineError, sentence
from mirrormq.spark.progress_line import ProgressLine
from mirrormq.spark.spark_session import DEFAULT_MASTER, SHORT_WORK, require_spark, session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mirrormq.spark.audit.collect import Progress
    from mirrormq.spark.audit.findings import Findings

PASSED, FAILED = 0, 1
"""Exit codes: without and with serious problems."""

CLASSES = ("attempted", "confirmed", "ok", "lost", "unexpected", "duplicated", "recovered", "unflagged")
COLUMNS = ("queue", *CLASSES)
"""Columns of the table that the job reports to the cluster."""

STEPS = 7
"""Number of steps of the collector."""

SMALL_BYTES = 50_000_000
"""Size of a history (some 8 million rows) below which quick compilation of Java gives a faster audit."""

SETTINGS = {
    # For a Spark in this process. It is enough for a history of any size, with one task per core and
    # data on disk between the steps.
    "spark.driver.memory": "2g",
}


@dataclass(frozen=True)
class AuditOptions:
    """Options of `mirrormq pipeline audit`."""

    history: str
    report: Path | None = None
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)
    uri: str | None = None
    """Cluster to which the job reports; None for none."""


def audit(events: DataFrame, history: str = "", progress: Progress = lambda step, text: None) -> Findings:
    """Judge the events of a history, which is called `history` in the report."""
    from mirrormq.spark.audit.collect import Collector

    return Collector(events, history, progress).collect()


def run(options: AuditOptions) -> Findings:
    """Start Spark, judge the history, write the report. Raises PipelineError."""
    addresses = _check(options)
    require_spark()
    if not addresses:
        return _audit(options, None)
    with JobReporter(addresses, "audit", f"history {options.history}") as reporter:
        found = _audit(options, reporter)
        numbers = {name: found.totals[name] for name in CLASSES}
        reporter.update(numbers=numbers, rows=[{name: row[name] for name in COLUMNS} for row in found.queues])
        reporter.end(DONE if found.passed else NOT_PASSED, found.verdict)
    return found


def _audit(options: AuditOptions, reporter: JobReporter | None) -> Findings:
    from mirrormq.spark.report.audit_page import page

    with (
        ProgressLine(STEPS, "audit") as line,
        session_for("mirrormq audit", options.master, _settings(options)) as spark,
    ):
        line.spark = spark
        try:
            found = _judge(spark, options, line, reporter)
        finally:
            line.spark = None
    if options.report is not None:
        try:
            options.report.write_text(page(found), encoding="utf-8")
        except OSError as error:
            raise PipelineError(f"the report {options.report} cannot be written: {error.strerror}") from None
    return found


def _settings(options: AuditOptions) -> dict[str, str]:
    settings = {**(SETTINGS if options.master.startswith("local") else {}), **options.settings}
    if _is_local(options) and _size_bytes(Path(options.history)) < SMALL_BYTES:
        settings["spark.driver.extraJavaOptions"] = (
            f"{SHORT_WORK} {settings.get('spark.driver.extraJavaOptions', '')}"
        )
    return settings


def _is_local(options: AuditOptions) -> bool:
    """Whether the history is on this machine, as far as the options show."""
    return options.master.startswith("local") and "://" not in options.history


def _size_bytes(history: Path) -> int:
    files = history.glob("*.parquet") if history.is_dir() else [history]
    return sum(file.stat().st_size for file in files)


def _judge(
    spark: SparkSession, options: AuditOptions, line: ProgressLine, reporter: JobReporter | None
) -> Findings:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from mirrormq.spark.audit.history_events import read_events

    def tell(step: int, text: str) -> None:
        line.update(step, text)
        if reporter is not None:
            reporter.update(text, {"step": step, "steps": STEPS})

    try:
        return audit(read_events(spark, options.history), options.history, tell)
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"Spark cannot judge {options.history}: {sentence(error)}") from None


def _check(options: AuditOptions) -> Sequence[AmqpUri]:
    """Refuse invalid options before Spark starts, which takes seconds."""
    if options.report is not None:
        directory = options.report.absolute().parent
        if not directory.is_dir():
            raise PipelineError(f"the report cannot be written: there is no directory {directory}")
        if options.report.is_dir():
            raise PipelineError(f"the report cannot be written: {options.report} is a directory")
    if _is_local(options):
        _check_local_history(options.history)
    try:
        return parse_uris(options.uri) if options.uri else ()
    except ValueError as error:
        raise PipelineError(str(error)) from None


def _check_local_history(path: str) -> None:
    directory = Path(path)
    if not directory.exists():
        raise PipelineError(
            f"there is no history at {path}: give --history the directory that mirrormq chaos wrote"
        )
    if directory.is_dir() and not any(directory.glob("*.parquet")):
        unfinished = any(directory.glob(".*.parquet.open"))
        why = "only files that were never finished" if unfinished else "no Parquet files"
        raise PipelineError(f"there is no history at {path}: the directory has {why}")
