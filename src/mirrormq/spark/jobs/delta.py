"""Archive as a Delta table: each batch is one transaction with the query's name and the batch number.

The tasks write Parquet files into the table's directory and return their metadata. The driver then adds all
of them to the table's log at once, through delta-rs, which needs no Java and no jars. A repeated batch finds
its number in the log and writes nothing. Files of a failed task or batch are in no transaction, and no reader
sees them; cleanup deletes them when they are a week old.

Two drivers of one checkpoint, of which the first is wrongly believed dead, cannot both add a batch: the log
refuses a transaction if its application has committed since it began.

The column `batch` names the batch of a message. It stays when small files are merged; a replay recognises a
published batch by it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mirrormq.spark.jobs.table_files import WRITTEN, write_files
from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

LOG = "_delta_log"
BATCH = "batch"
APPLICATION = "mirrormq-archive"


def require() -> None:
    """Raise PipelineError if the package of the extra is not installed."""
    if find_spec("deltalake") is None:
        raise PipelineError("Delta tables need the package deltalake: run pip install 'mirrormq[delta]'")


def is_table(directory: str) -> bool:
    """Whether a local directory holds a Delta table."""
    return Path(directory, LOG).is_dir()


def write_batch(
    messages: DataFrame, query: str, batch: int, directory: str, partition_by: Sequence[str]
) -> bool:
    """Add a batch to the table, which is created if absent; return False if the batch was added before."""
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


def compact(directory: str) -> int:
    """Merge small files and delete files unused for a week; return the number of merged files. Other writers
    may run meanwhile."""
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


def expire(directory: str, first_day: date) -> int:
    """Remove the days before `first_day` from the table; return the number of files.

    Cleanup deletes the files themselves after the time for which older versions stay readable.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if not is_table(directory):
        return 0
    try:
        done = DeltaTable(directory).delete(f"date < '{first_day}'")
        DeltaTable(directory).vacuum(dry_run=False)
    except DeltaError as error:
        raise PipelineError(f"the Delta table {directory} cannot be tidied: {error}") from None
    return int(done["num_removed_files"])


def read_table(spark: SparkSession, directory: str) -> DataFrame:
    """Return the current table, read by Spark's own Parquet reader."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    require()
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
        # Directory names hold a non-ASCII letter as its bytes; Spark reads each byte as a letter.
        found = found.withColumn("queue", f.decode(f.encode("queue", "ISO-8859-1"), "UTF-8"))
    return found
