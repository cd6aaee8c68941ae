"""Reader of a history, with a check of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mirrormq.history import SCHEMA
from mirrormq.spark.pipeline_errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_TYPES = {
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    pa.bool_(): "boolean",
}


def read_events(spark: SparkSession, path: str) -> DataFrame:
    """Read the history under `path`: a directory of Parquet files with the columns of SCHEMA."""
    try:
        events = spark.read.parquet(path)
        found = dict(events.dtypes)
    except (PySparkException, Py4JError) as error:
        raise PipelineError(_why_unreadable(path, error)) from None
    for field in SCHEMA:
        expected = SPARK_TYPES[field.type]
        if found.get(field.name) != expected:
            has = f"is {found[field.name]}" if field.name in found else "is missing"
            raise PipelineError(
                f"{path} is not a history of mirrormq chaos: its column {field.name} {has}, not {expected}"
            )
    return events.select(*SCHEMA.names)


def _why_unreadable(path: str, error: PySparkException | Py4JError) -> str:
    condition = (error.getCondition() or "") if isinstance(error, PySparkException) else ""
    if condition.startswith("PATH_NOT_FOUND"):
        return f"there is no history at {path} where Spark runs"
    if condition.startswith("UNABLE_TO_INFER_SCHEMA"):
        return f"there is no history at {path}: it has no Parquet files"
    return f"{path} cannot be read as a history: {sentence(error)}"
