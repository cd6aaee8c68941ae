"""Small files of an archive put together, directory by directory. The idea is told in `archive.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES_MIN = 8
"""Fewer in a directory are not worth the work."""

WORKSPACE = "_compacting"
"""Where a new directory is written before it gets its place."""


class ArchiveBatches(NamedTuple):
    """A directory `batch=QUERY.FIRST` or `batch=QUERY.FIRST-LAST`."""

    path: str
    query: str
    first: int
    last: int


def parse(path: str) -> ArchiveBatches | None:
    """The batches that a directory says it has."""
    found = re.search(r"/batch=([0-9a-f]+)\.(\d+)(?:-(\d+))?$", path)
    return ArchiveBatches(path, found[1], int(found[2]), int(found[3] or found[2])) if found else None


def superfluous(found: Sequence[ArchiveBatches]) -> list[ArchiveBatches]:
    """Those whose batches are all in another one too."""
    return [
        one
        for one in found
        if any(
            other.query == one.query
            and other.first <= one.first
            and one.last <= other.last
            and other.path != one.path
            for other in found
        )
    ]


def tidy(spark: SparkSession, archive: str) -> int:
    """Delete what an interrupted compaction left; how many directories it were."""
    files = ArchiveFiles(spark)
    files.delete(f"{archive}/{WORKSPACE}")
    count = 0
    for group in files.groups(archive):
        for each in superfluous(group):
            files.delete(each.path)
            count += 1
    return count


def compact(spark: SparkSession, archive: str, batches_min: int = BATCHES_MIN) -> int:
    """Put batches together in each directory that has many; how many directories it were.

    Nothing may write to the archive meanwhile.
    """
    tidy(spark, archive)
    files = ArchiveFiles(spark)
    count = 0
    for group in files.groups(archive):
        if len(group) < batches_min:
            continue
        first, last = min(each.first for each in group), max(each.last for each in group)
        place = group[0].path.rpartition("/")[0]
        workspace = f"{archive}/{WORKSPACE}"
        frame = spark.read.parquet(*(each.path for each in group))
        frame.coalesce(1).sortWithinPartitions("sequence").write.mode("overwrite").parquet(workspace)
        files.rename(workspace, f"{place}/batch={group[0].query}.{first:012}-{last:012}")
        for each in group:
            files.delete(each.path)
        count += 1
    return count


class ArchiveFiles:
    """The archive's file system, whatever kind it is, through Spark's own Java."""

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

    def groups(self, archive: str) -> Iterator[list[ArchiveBatches]]:
        """The directories of batches, those of one query with the same parent together."""
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
