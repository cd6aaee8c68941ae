"""Upkeep of an archive: small files are merged, days beyond the retention are deleted.

It runs between two batches while the archive's query runs, and at the end of the job. Before batch N, Spark
has recorded that all earlier batches are complete. Batch N itself may have left files in an earlier attempt,
which it is about to replace. Upkeep therefore leaves the query's batches from N on alone.
"""

from __future__ import annotations

import re
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING

from mirrormq.spark.jobs import compaction, delta
from mirrormq.spark.jobs.compaction import ArchiveFiles, FirstOpenBatch
from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ArchiveUpkeep:
    """Upkeep at an interval. Without anything to do it never runs."""

    def __init__(
        self, archive: str, *, in_delta: bool, compact: bool, retention_days: int | None, interval_s: float
    ) -> None:
        self._archive = archive
        self._in_delta = in_delta
        self._compact = compact
        self._retention_days = retention_days
        self._interval_s = interval_s
        self._last_s = time.monotonic()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self._compact or self._retention_days is not None

    def before_batch(self, spark: SparkSession, batch: FirstOpenBatch) -> None:
        """Run if the interval has passed; `batch` is about to be written."""
        if self.is_needed and time.monotonic() - self._last_s >= self._interval_s:
            self.run(spark, batch)

    def run(self, spark: SparkSession, batch: FirstOpenBatch | None = None) -> None:
        """Delete what is too old, then merge the rest."""
        if self._retention_days is not None:
            today: date = spark.sql("SELECT current_date()").collect()[0][0]
            expire(spark, self._archive, today - timedelta(self._retention_days), in_delta=self._in_delta)
        if self._compact and self._in_delta:
            delta.compact(self._archive)
        elif self._compact:
            compaction.compact(spark, self._archive, before=batch)
        self._last_s = time.monotonic()


def retention_days(text: str) -> int:
    """Parse a retention such as 30d."""
    found = re.fullmatch(r"([1-9]\d{0,4}) ?(?:d|days?)", text)
    if found is None:
        raise PipelineError(f"--retention {text} is no number of days such as 30d")
    return int(found[1])


def expire(spark: SparkSession, archive: str, first_day: date, *, in_delta: bool = False) -> int:
    """Delete the days before `first_day`; return the number of directories or files."""
    if in_delta:
        return delta.expire(archive, first_day)
    files = ArchiveFiles(spark)
    expired = [path for day, path in files.days(archive) if day < first_day]
    for path in expired:
        files.delete(path)
    return len(expired)
