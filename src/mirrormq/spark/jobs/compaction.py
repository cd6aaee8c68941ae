"""Compaction of an archive's small files, directory by directory. `archive.py` describes the protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES_MIN = 8
"""Smallest number of batches in a directory that is worth compacting."""

WORKSPACE = "_compacting"
"""Directory for a merged batch before it is renamed to its place."""


class ArchiveBatches(NamedTuple):
    """Directory `batch=QUERY.FIRST` or `batch=QUERY.FIRST-LAST`."""

    path: str
    query: str
    first: int
    last: int


class FirstOpenBatch(NamedTuple):
    """First batch of a running query that Spark has not recorded as complete."""

    query: str
    number: int


def parse(path: str) -> ArchiveBatches | None:
    """Parse the batches in the name of a directory."""
    found = re.search(r"/batch=([0-9a-f]+)\.(\d+)(?:-(\d+))?$", path)
    return ArchiveBatches(path, found[1], int(found[2]), int(found[3] or found[2])) if found else None


def superfluous(found: Sequence[ArchiveBatches]) -> list[ArchiveBatches]:
    """Return the directories whose batches are all in another one too."""
    redundant = []
    highest: dict[str, int] = {}
    for one in sorted(found, key=lambda each: (each.first, -each.last)):
        # Earlier directories of the query begin at or before this one: one that ends behind it contains it.
        if one.last <= highest.get(one.query, -1):
            redundant.append(one)
        else:
            highest[one.query] = one.last
    return redundant


def run_to_merge(found: Sequence[ArchiveBatches]) -> list[ArchiveBatches]:
    """Return the newest directories of a query that are worth merging with each other.

    An older directory is added as long as it has no more batches than the newer ones together. A merge then
    doubles the number of batches at least, so each message is written again a few times only, and the number
    of directories grows with the logarithm of the number of batches.
    """
    newest_first = sorted(found, key=lambda each: each.first, reverse=True)
    run = newest_first[:1]
    for older in newest_first[1:]:
        if older.last - older.first > run[0].last - run[-1].first:
            break
        run.append(older)
    return run


def tidy(spark: SparkSession, archive: str) -> int:
    """Delete leftovers of an interrupted compaction; return the number of directories."""
    files = ArchiveFiles(spark)
    files.delete(f"{archive}/{WORKSPACE}")
    count = 0
    for group in files.groups(archive):
        for each in superfluous(group):
            files.delete(each.path)
            count += 1
    return count


def compact(
    spark: SparkSession, archive: str, batches_min: int | None = None, before: FirstOpenBatch | None = None
) -> int:
    """Merge the newest batches in each directory that has many; return the number of directories.

    No other process may write to the archive meanwhile. Batches of a running query from `before` on stay.
    """
    tidy(spark, archive)
    files = ArchiveFiles(spark)
    count = 0
    for found in files.groups(archive):
        group = run_to_merge([each for each in found if not before or not _is_open(each, before)])
        if len(group) < (batches_min or BATCHES_MIN):
            continue
        first, last = min(each.first for each in group), max(each.last for each in group)
        place = group[0].path.rpartition("/")[0]
        workspace = f"{archive}/{WORKSPACE}"
        frame = spark.read.option("mergeSchema", "true").parquet(*(each.path for each in group))
        frame.coalesce(1).sortWithinPartitions("sequence").write.mode("overwrite").parquet(workspace)
        files.rename(workspace, f"{place}/batch={group[0].query}.{first:012}-{last:012}")
        for each in group:
            files.delete(each.path)
        count += 1
    return count


def _is_open(batches: ArchiveBatches, before: FirstOpenBatch) -> bool:
    return batches.query == before.query and batches.last >= before.number


class ArchiveFiles:
    """File system of the archive, of any kind, through Spark's own Java."""

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "_sc", None)
        if context is None:
            raise PipelineError("compaction needs a Spark of its own: use a --master other than sc://")
        self._jvm: Any = context._jvm
        self._settings = context._jsc.hadoopConfiguration()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._settings)

    def delete(self, path: str) -> None:
        self._system(path).delete(self._path(path), True)

    def rename(self, path: str, to: str) -> None:
        if not self._system(path).rename(self._path(path), self._path(to)):
            raise PipelineError(f"{path} cannot be renamed to {to}")

    def days(self, archive: str) -> Iterator[tuple[date, str]]:
        """Yield the directories of days."""
        system = self._system(archive)
        if not system.exists(self._path(archive)):
            return
        for status in system.listStatus(self._path(archive)):
            found = re.fullmatch(r"date=(\d{4}-\d\d-\d\d)", status.getPath().getName())
            if found is not None:
                yield date.fromisoformat(found[1]), status.getPath().toString()

    def groups(self, archive: str) -> Iterator[list[ArchiveBatches]]:
        """Yield the batch directories, grouped by query and parent."""
        system = self._system(archive)
        if not system.exists(self._path(archive)):
            return
        left = [archive]
        while left:
            place = left.pop()
            found = [
                status.getPath() for status in system.listStatus(self._path(place)) if status.isDirectory()
            ]
            group = [batches for path in found if (batches := parse(path.toString())) is not None]
            for query in sorted({each.query for each in group}):
                yield [each for each in group if each.query == query]
            known = {each.path for each in group}
            left += [
                path.toString()
                for path in found
                if path.toString() not in known and not path.getName().startswith(("_", "."))
            ]
