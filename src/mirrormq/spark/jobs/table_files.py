"""Parquet files of a task in the directory of a table. They are in no transaction of the table yet."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import pyarrow as pa

FILES_OPEN_MAX = 32
"""Files that a task has open at once, one per combination of partition values."""

WRITTEN = "path string, bytes long, messages long, partition string, time_ms long"
"""Metadata of each file that a task returns."""


def write_files(
    batches: Iterator[pa.RecordBatch],
    directory: str,
    partition_by: tuple[str, ...],
    whole: pa.Schema | None = None,
    files_open_max: int = FILES_OPEN_MAX,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task into files by the values of the partition columns.

    Directories have the names of these values, and files lack the columns. With a schema, `whole`, files have
    all its columns instead and are in the directory `data`.
    """
    import pyarrow as pa

    files: dict[tuple[str, ...], TableFile] = {}
    done: list[dict[str, Any]] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for values, rows in _by_partition(table if whole is None else table.cast(whole), partition_by):
            file = files.pop(values, None)
            if file is None:
                if len(files) >= files_open_max:
                    done.append(files.pop(next(iter(files))).finish())
                partition = dict(zip(partition_by, values, strict=True))
                file = TableFile(directory, partition, rows.schema, whole is not None)
            file.write(rows)
            files[values] = file  # moved to the end: most recently used
    done += [file.finish() for file in files.values()]
    types = {"path": pa.string(), "bytes": pa.int64(), "messages": pa.int64(), "partition": pa.string()}
    if done:
        yield pa.RecordBatch.from_pylist(done, schema=pa.schema({**types, "time_ms": pa.int64()}))


def _by_partition(
    rows: pa.Table, partition_by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """Yield the rows of each combination of partition values."""
    import pyarrow.compute as pc

    if not partition_by:
        yield (), rows
        return
    texts = [rows.column(name).cast("string") for name in partition_by]
    for values in dict.fromkeys(zip(*(text.to_pylist() for text in texts), strict=True)):
        same = [pc.equal(text, value) for text, value in zip(texts, values, strict=True)]
        yield values, rows.filter(reduce(pc.and_, same))


class TableFile:
    """Parquet file that is being written."""

    def __init__(self, directory: str, partition: dict[str, str], schema: pa.Schema, is_whole: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [f"{name}={quote(value, safe='')}" for name, value in partition.items()]
        folders = ["data"] if is_whole else names
        self._dropped = [] if is_whole else list(partition)
        self._name = "/".join([*folders, f"part-{uuid.uuid4().hex}.zstd.parquet"])
        self._path = Path(directory, self._name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._partition = partition
        self._messages = 0
        kept = pa.schema([each for each in schema if each.name not in self._dropped])
        self._writer = pq.ParquetWriter(self._path, kept, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.drop_columns(self._dropped))
        self._messages += rows.num_rows

    def finish(self) -> dict[str, Any]:
        """Close and fsync the file; return its metadata."""
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        return {
            "path": self._name, "bytes": self._path.stat().st_size, "messages": self._messages,
            "partition": json.dumps(self._partition), "time_ms": int(time.time() * 1000),
        }  # fmt: skip
