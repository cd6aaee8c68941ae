"""Archive as an Iceberg table with a catalogue of its own: each batch is one transaction.

The tasks write Parquet files into the table's directory. The driver then adds all of them at once, through
pyiceberg, which needs no Java and no jars. The same transaction sets the table property
`mirrormq-archive.QUERY` to the batch's number, so a repeated batch finds its number and writes nothing. Files
of a failed task or batch are in no transaction, and no reader sees them.

Two drivers of one checkpoint, of which the first is wrongly believed dead, cannot both add a batch: the
catalogue refuses a transaction if the table has changed since it began. Each attempt looks for the number
again. pyiceberg's own retries would add the files a second time, so the table's properties forbid them.

The catalogue is an SQLite file beside the table, `catalog.sqlite`; another catalogue can register the table
by its newest metadata file. Metadata names files by their absolute paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.spark.jobs.table_files import WRITTEN, write_files
from mirrormq.spark.pipeline_errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOGUE = "catalog.sqlite"
NAMESPACE, TABLE = "mirrormq", "messages"
BATCH = "batch"
APPLICATION = "mirrormq-archive"
TRIES = 5
"""Attempts to add a batch beside other writers."""
FILES = "mirrormq.spark.jobs.iceberg_files.SyncedFiles"


def require() -> None:
    """Raise PipelineError if the packages of the extra are not installed."""
    if find_spec("pyiceberg") is None or find_spec("sqlalchemy") is None:
        raise PipelineError(
            "Iceberg tables need the packages pyiceberg and sqlalchemy: run pip install 'mirrormq[iceberg]'"
        )


def is_table(directory: str) -> bool:
    """Whether a local directory holds an Iceberg table of ours."""
    return Path(directory, CATALOGUE).is_file()


@contextmanager
def catalogue_of(directory: str, what: str) -> Iterator[Any]:
    """Provide the catalogue of a table; its errors become one sentence about what cannot be done."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException, RESTError
    from sqlalchemy.engine import URL
    from sqlalchemy.exc import SQLAlchemyError

    where = Path(directory).resolve()
    where.mkdir(parents=True, exist_ok=True)
    try:
        catalogue = SqlCatalog(
            "mirrormq",
            uri=URL.create("sqlite", database=str(where / CATALOGUE)).render_as_string(),
            warehouse=f"file://{where}",
            **{"py-io-impl": FILES},
        )
        try:
            yield catalogue
        finally:
            catalogue.close()
    except (CommitFailedException, RESTError, SQLAlchemyError, OSError) as error:
        raise PipelineError(f"the Iceberg table {directory} cannot be {what}: {error}") from None


def write_batch(
    messages: DataFrame, query: str, batch: int, directory: str, partition_by: Sequence[str]
) -> bool:
    """Add a batch to the table, which is created if absent; return False if the batch was added before."""
    from pyiceberg.exceptions import CommitFailedException
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = messages.withColumn(BATCH, f.lit(f"{query}.{batch}"))
    whole = to_arrow_schema(rows.schema, timezone="UTC")
    with catalogue_of(directory, "written") as catalogue:
        table = _table(catalogue, directory, whole, partition_by)
        if _has(table, query, batch):
            return False
        columns, root = tuple(partition_by), str(Path(directory).resolve())
        written = rows.mapInArrow(lambda parts: write_files(parts, root, columns, whole), WRITTEN).collect()
        paths = [f"{root}/{row.path}" for row in written]
        for attempt in range(TRIES):
            try:
                add(table, query, batch, paths, whole)
                return True
            except CommitFailedException:
                # Another writer was faster: a second driver of this query, or an engine at its maintenance.
                if attempt == TRIES - 1:
                    raise
                table.refresh()
                if _has(table, query, batch):
                    return False
    raise AssertionError("not reached")


def _has(table: Any, query: str, batch: int) -> bool:
    return int(table.properties.get(f"{APPLICATION}.{query}", -1)) >= batch


def add(table: Any, query: str, batch: int, paths: list[str], whole: Any) -> None:
    """Add the files of a batch and the batch's number in one transaction."""
    with table.transaction() as transaction:
        if set(whole.names) - set(table.schema().column_names):
            with transaction.update_schema() as update:
                update.union_by_name(whole)
        transaction.set_properties({f"{APPLICATION}.{query}": str(batch)})
        if paths:
            # Names of new files are random, so none of them is in the table.
            # pyiceberg takes the path as it is, without percent encoding.
            transaction.add_files([f"file://{path}" for path in paths], check_duplicate_files=False)


def _table(catalogue: Any, directory: str, whole: Any, partition_by: Sequence[str]) -> Any:
    """Return the table, created with these columns if it is absent."""
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.transforms import IdentityTransform

    try:
        return catalogue.load_table((NAMESPACE, TABLE))
    except NoSuchTableError:
        catalogue.create_namespace_if_not_exists(NAMESPACE)
        location = f"file://{Path(directory).resolve()}"
        properties = {"commit.retry.num-retries": "0"}
        with catalogue.create_table_transaction(
            (NAMESPACE, TABLE), whole, location, properties=properties
        ) as creation:
            with creation.update_spec() as specification:
                for name in partition_by:
                    specification.add_field(name, IdentityTransform(), name)
        return catalogue.load_table((NAMESPACE, TABLE))


def read_table(spark: SparkSession, directory: str) -> DataFrame:
    """Return the current table, read by Spark's own Parquet reader."""
    from pyspark.sql.pandas.types import from_arrow_schema

    require()
    with catalogue_of(directory, "read") as catalogue:
        table = catalogue.load_table((NAMESPACE, TABLE))
        schema = from_arrow_schema(table.schema().as_arrow())
        files = [task.file.file_path for task in table.scan().plan_files()]
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
