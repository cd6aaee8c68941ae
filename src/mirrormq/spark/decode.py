"""What is in the bodies, as columns.

from mirrormq.spark.decode import json_body, text_body

orders = json_body(messages, "id long, amount double")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def text_body(messages: DataFrame, charset: str = "UTF-8", column: str = "text") -> DataFrame:
    """The same rows with the body as text in a new column."""
    from pyspark.sql import functions as f

    return messages.withColumn(column, f.decode("body", charset))


def json_body(messages: DataFrame, schema: StructType | str, column: str = "value") -> DataFrame:
    """The same rows with the body, read as JSON of this schema, in a new column.

    A body that is not JSON gives null, and so does one of another shape. Fields that the schema does not name
    are left out, fields that a body does not have are null: publishers may add fields as they like.
    """
    from pyspark.sql import functions as f

    text = f.col("body").cast("string")
    return messages.withColumn(column, f.from_json(f.try_validate_utf8(text), schema))
