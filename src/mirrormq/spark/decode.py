"""What is in the bodies, as columns.

from mirrormq.spark.decode import json_body, text_body

orders = json_body(messages, "id long, amount double")

A publisher may send any bytes, whatever the others do. So a body that is not what was expected gives null
instead of ending the query, for it would end again at the same message after each restart. A body is never
null itself: `where("text is null")` finds the messages that could not be read.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Errors = Literal["null", "replace", "fail"]
ERRORS: tuple[Errors, ...] = ("null", "replace", "fail")


def text_body(
    messages: DataFrame, charset: str = "UTF-8", column: str = "text", errors: Errors = "null"
) -> DataFrame:
    """The same rows with the body as text in a new column. Any charset that Python knows will do.

    A body that is not text of this charset gives null; with `errors="replace"` the text with U+FFFD in place
    of what could not be read; with `errors="fail"` the query fails.
    """
    from pyspark.sql import functions as f

    if errors not in ERRORS:
        raise ValueError(f"errors is {errors!r}: use one of {', '.join(ERRORS)}")
    try:
        known = codecs.lookup(charset).name
        "".encode(known)
    except LookupError:
        raise ValueError(f"charset is {charset!r}, which Python does not know as one of text") from None
    if known != "utf-8":
        return messages.withColumn(column, _decoded(known, errors))
    ways = {"null": f.try_validate_utf8, "replace": f.make_valid_utf8, "fail": f.validate_utf8}
    return messages.withColumn(column, ways[errors](f.col("body").cast("string")))


def _decoded(charset: str, errors: Errors) -> Column:
    """The body as text, decoded by Python: Spark itself knows seven charsets, and only how to fail."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions

    def decode(bodies: Any) -> Any:
        return pa.array([read_text(body.as_py(), charset, errors) for body in bodies], pa.string())

    # Spark learns from these what the function takes. It warns whoever says it in the other way, which is the
    # only one that type checkers know of.
    decode.__annotations__ = {"bodies": pa.Array, "return": pa.Array}
    make: Callable[..., Callable[[str], Column]] = functions.arrow_udf
    return make(decode, "string")("body")


def read_text(body: bytes | None, charset: str, errors: Errors) -> str | None:
    """A body as text that can be kept as UTF-8."""
    if body is None:
        return None
    way = "replace" if errors == "replace" else "strict"
    try:
        return body.decode(charset, way).encode("utf-8", way).decode()
    except UnicodeError:
        if errors == "fail":
            raise
        return None


def json_body(messages: DataFrame, schema: StructType | str, column: str = "value") -> DataFrame:
    """The same rows with the body, read as JSON of this schema, in a new column.

    A body that is not JSON gives null, and so does one of another shape. Fields that the schema does not name
    are left out, fields that a body does not have are null: publishers may add fields as they like.
    """
    from pyspark.sql import functions as f

    text = f.col("body").cast("string")
    return messages.withColumn(column, f.from_json(f.try_validate_utf8(text), schema))
