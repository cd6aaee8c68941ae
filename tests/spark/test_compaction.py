"""Compaction of an archive: which batches are merged, and what an interruption leaves."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from mirrormq.spark.jobs import compaction
from mirrormq.spark.jobs.compaction import ArchiveBatches, compact, parse, run_to_merge, superfluous, tidy


def test_compaction_keeps_a_column_that_only_later_batches_have(spark: SparkSession, tmp_path: Path) -> None:
    for number, schema in enumerate(["sequence long", "sequence long, ingestion_time timestamp"] * 2):
        row = (number, datetime(2026, 1, 2, tzinfo=UTC))[: 1 + number % 2]
        place = tmp_path / f"date=2026-01-02/queue=q/batch=abcdef12.{number:012}"
        spark.createDataFrame([row], schema).write.parquet(str(place))
    assert compact(spark, str(tmp_path), batches_min=2) == 1
    rows = spark.read.parquet(str(tmp_path)).orderBy("sequence").collect()
    assert [(row.sequence, row.ingestion_time is not None) for row in rows] == [
        (0, False), (1, True), (2, False), (3, True),
    ]  # fmt: skip


def test_compaction_writes_each_message_a_few_times_only() -> None:
    """Merging all of a day at each upkeep writes a message as often as there are upkeeps."""
    directories: list[ArchiveBatches] = []
    written = most = 0
    count = 10_000
    for number in range(count):
        directories.append(ArchiveBatches(f"{number}", "ab", number * 3, number * 3))  # one trigger in three
        run = run_to_merge(directories)
        if len(run) >= compaction.BATCHES_MIN:
            first, last = run[-1].first, run[0].last
            written += (last - first) // 3 + 1
            directories = [each for each in directories if each not in run]
            assert all(each.last < first for each in directories), "ranges of batches do not overlap"
            directories.append(ArchiveBatches(f"{first}-{last}", "ab", first, last))
        most = max(most, len(directories))
    assert sum((each.last - each.first) // 3 + 1 for each in directories) == count
    assert most <= 2 * compaction.BATCHES_MIN + 4
    assert written <= 11 * count, "each message is written again once for each doubling, at most"


def test_leftovers_among_many_directories_are_found_at_once() -> None:
    """A directory of a month that was never compacted has ten thousand batches."""
    found = [ArchiveBatches(f"{number}", "ab", number, number) for number in range(20_000)]
    began_s = time.process_time()
    assert superfluous(found) == []
    assert superfluous([*found, ArchiveBatches("5-7", "ab", 5, 7)]) == found[5:8]
    assert time.process_time() - began_s < 5, "comparing each with each takes minutes"


def test_leftovers_of_an_interrupted_compaction_are_known_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert parse("file:/a/batch=ab12.000000000007") == ArchiveBatches(
        "file:/a/batch=ab12.000000000007", "ab12", 7, 7
    )
    assert parse("file:/a/queue=x") is None
    names = ["ab.1", "ab.2-5", "ab.3", "ab.4-5", "ab.6", "cd.3"]
    found = [batches for name in names if (batches := parse(f"/batch={name}")) is not None]
    assert [each.path for each in superfluous(found)] == ["/batch=ab.3", "/batch=ab.4-5"]
    for name in names:
        (tmp_path / "queue=q" / f"batch={name}").mkdir(parents=True)
    (tmp_path / "_compacting").mkdir()
    assert tidy(spark, str(tmp_path)) == 2
    left = sorted(path.name for path in (tmp_path / "queue=q").iterdir())
    assert left == ["batch=ab.1", "batch=ab.2-5", "batch=ab.6", "batch=cd.3"]
    assert not (tmp_path / "_compacting").exists()
