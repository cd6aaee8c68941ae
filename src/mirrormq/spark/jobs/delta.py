"""An archive as a Delta table: each batch is one transaction that carries the query's name and its number.

The tasks write Parquet files into the table's directory and hand back what they wrote; the driver then adds
all of them to the table's log at once, through delta-rs, which needs no Java and no jars. A batch that is run
again finds its number in the log and writes nothing. Files of a task or a batch that died are in no
transaction, so no reader sees them; cleaning up deletes them when they are a week old.

Two drivers of one checkpoint, of which the first is only believed to be dead, cannot both add a batch: the
log refuses a transaction whose application has gone on since it was begun.

The column `batch` says which batch a message came with. It stays when small files are put together, so that
a replay knows a batch it has published.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

LOG = "_delta_log"
BATCH = "batch"
APPLICATION = "mirrormq-archive"

FILES_OPEN_MAX = 32
"""Files a task has open at once, one for each date and queue; publishers may give any time stamp."""

WRITTEN = "path string, bytes long, messages long, partition string, time_ms long"
"""What a task says of each file."""


def require_delta() -> None:
    """Say so when the package of the extra is not there."""
    if find_spec("deltalake") is None:
        raise PipelineError("Delta tables need the package deltalake: run pip install 'mirrormq[delta]'")


def is_table(directory: str) -> bool:
    """Whether a directory of this machine holds a Delta table."""
    return Path(directory, LOG).is_dir()


def write_batch(
    messages: DataFrame, query: str, batch: int, directory: str, partition_by: Sequence[str]
) -> bool:
    """Add a batch to the table, which is made if there is none; False if it was added before."""
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import functions as f

    rows = messages.withColumn(BATCH, f.lit(f"{query}.{batch}"))
    schema = Schema.from_json(rows.schema.json())
    application = f"{APPLICATION}/{query}"
    try:
        table = DeltaTable.create(directory, schema, mode="ignore", partition_by=list(partition_by))
        before = table.transaction_version(application)
        if before is not None and before >= batch:
            return False
        columns = tuple(partition_by)
        written = rows.mapInArrow(lambda parts: write_files(parts, directory, columns), WRITTEN).collect()
        adding: list[AddAction | RemoveAction] = [
            AddAction(
                row.path, row.bytes, json.loads(row.partition), row.time_ms, True,
                json.dumps({"numRecords": row.messages}),
            )
            for row in written
        ]  # fmt: skip
        properties = CommitProperties(app_transactions=[Transaction(application, batch)])
        table.create_write_transaction(adding, "append", schema, list(columns), commit_properties=properties)
    except DeltaError as error:
        raise PipelineError(f"the Delta table {directory} cannot be written: {error}") from None
    return True


def write_files(
    batches: Iterator[pa.RecordBatch], directory: str, partition_by: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """What a task does: its rows into files by the values of the partitions' columns."""
    import pyarrow as pa

    files: dict[tuple[str, ...], TableFile] = {}
    done: list[dict[str, Any]] = []
    for batch in batches:
        for values, rows in _by_partition(pa.Table.from_batches([batch]), partition_by):
            file = files.pop(values, None)
            if file is None:
                if len(files) >= FILES_OPEN_MAX:
                    done.append(files.pop(next(iter(files))).finish())
                file = TableFile(directory, dict(zip(partition_by, values, strict=True)), rows.schema)
            file.write(rows)
            files[values] = file  # behind the others: it was used last
    done += [file.finish() for file in files.values()]
    types = {"path": pa.string(), "bytes": pa.int64(), "messages": pa.int64(), "partition": pa.string()}
    if done:
        yield pa.RecordBatch.from_pylist(done, schema=pa.schema({**types, "time_ms": pa.int64()}))


def _by_partition(
    rows: pa.Table, partition_by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """The rows of each combination of values, without the columns that have them."""
    import pyarrow.compute as pc

    if not partition_by:
        yield (), rows
        return
    texts = [rows.column(name).cast("string") for name in partition_by]
    left = rows.drop_columns(list(partition_by))
    for values in dict.fromkeys(zip(*(text.to_pylist() for text in texts), strict=True)):
        same = [pc.equal(text, value) for text, value in zip(texts, values, strict=True)]
        yield values, left.filter(reduce(pc.and_, same))


class TableFile:
    """A Parquet file in the table's directory that is in no transaction yet."""

    def __init__(self, directory: str, partition: dict[str, str], schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        folders = [f"{name}={quote(value, safe='')}" for name, value in partition.items()]
        self._name = "/".join([*folders, f"part-{uuid.uuid4().hex}.zstd.parquet"])
        self._path = Path(directory, self._name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._partition = partition
        self._messages = 0
        self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._messages += rows.num_rows

    def finish(self) -> dict[str, Any]:
        """Close it and see it on the disk; what is to be known of it."""
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        return {
            "path": self._name, "bytes": self._path.stat().st_size, "messages": self._messages,
            "partition": json.dumps(self._partition), "time_ms": int(time.time() * 1000),
        }  # fmt: skip


def compact(directory: str) -> int:
    """Put small files together and delete what nobody has needed for a week; how many files went into
    others. Others may write meanwhile."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not is_table(directory):
        return 0
    try:
        table = DeltaTable(directory)
        done = table.optimize.compact()
        table.vacuum(dry_run=False)
        table.create_checkpoint()
    except DeltaError as error:
        raise PipelineError(f"the Delta table {directory} cannot be tidied: {error}") from None
    return int(done["numFilesRemoved"])


def read_table(spark: SparkSession, directory: str) -> DataFrame:
    """The table as it is now, read by Spark's own Parquet reader."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    require_delta()
    try:
        table = DeltaTable(directory)
    except DeltaError as error:
        raise PipelineError(f"the Delta table {directory} cannot be read: {error}") from None
    return _frame(spark, table, directory)


def _frame(spark: SparkSession, table: DeltaTable, directory: str) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    found = spark.read.schema(schema).option("basePath", directory).parquet(*files)
    if "queue" in table.metadata().partition_columns:
        # In the names of directories a letter outside ASCII is written as its bytes; Spark takes each of
        # them for a letter.
        found = found.withColumn("queue", f.decode(f.encode("queue", "ISO-8859-1"), "UTF-8"))
    return found
