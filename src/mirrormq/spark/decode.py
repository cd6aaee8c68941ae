"""Decoding of message bodies into columns.

from mirrormq.spark.decode import json_body, text_body

orders = json_body(messages, "id long, amount double")

A publisher may send any bytes. An undecodable body therefore gives null instead of failing the query, which
would fail again at the same message after each restart. A body itself is never null:
`where("text is null")` finds the undecodable messages.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Errors = Literal["null", "replace", "fail"]
UNREADABLE = "_mirrormq_unreadable"
"""Name of an extra schema field in which Spark stores text that it cannot parse."""

REASON_HEADER = "x-dead-letter-reason"
FAULT_HEADER = "x-dead-letter-fault"
QUEUE_HEADER = "x-original-queue"
EXCHANGE_HEADER = "x-original-exchange"
KEY_HEADER = "x-original-routing-key"

ERRORS: tuple[Errors, ...] = ("null", "replace", "fail")


def text_body(
    messages: DataFrame, charset: str = "UTF-8", column: str = "text", errors: Errors = "null"
) -> DataFrame:
    """Return the rows with the body as text in a new column. Any charset of Python is valid.

    A body that is not text of this charset gives null. With `errors="replace"` it gives text with U+FFFD in
    place of invalid bytes. With `errors="fail"` the query fails.
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
    """Return the body as text, decoded by Python: Spark itself supports seven charsets and can only fail."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions

    def decode(bodies: Any) -> Any:
        return pa.array([read_text(body.as_py(), charset, errors) for body in bodies], pa.string())

    # Spark reads the argument types from these annotations. Its other notation, the only one that type
    # checkers know, prints a warning.
    decode.__annotations__ = {"bodies": pa.Array, "return": pa.Array}
    make: Callable[..., Callable[[str], Column]] = functions.arrow_udf
    return make(decode, "string")("body")


def read_text(body: bytes | None, charset: str, errors: Errors) -> str | None:
    """Decode a body as text that is valid UTF-8."""
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
    """Return the rows with the body, parsed as JSON of this schema, in a new column.

    A body that is not JSON, or of another shape, gives null. Fields outside the schema are dropped, missing
    fields are null: publishers may add fields.
    """
    from pyspark.sql import functions as f

    return messages.withColumn(column, parsed_json(f.col("body"), schema))


def parsed_json(body: Column, schema: StructType | str) -> Column:
    """Return a binary column, parsed as JSON of this schema."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(wanted, StructType):
        raise ValueError(
            f"schema is {schema!r}: write the fields of an object, as in 'id long, amount double'"
        )
    # Without this field Spark returns a struct of nulls for invalid JSON, as for an empty object.
    whole = StructType([*wanted.fields, StructField(UNREADABLE, StringType())])
    text = f.try_validate_utf8(body.cast("string"))
    parsed = f.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE})
    fields = f.struct(*[parsed.getField(name).alias(name) for name in wanted.names])
    is_good = parsed.isNotNull() & parsed.getField(UNREADABLE).isNull()
    return f.when(is_good, fields)


def split_bad(decoded: DataFrame, column: str | None = None) -> tuple[DataFrame, DataFrame]:
    """Split rows of `json_body` or `text_body` into decoded and undecodable ones.

    `column` is the added column; by default `value` or `text`, whichever exists.
    """
    from pyspark.sql import functions as f

    name = column or next((each for each in ("value", "text") if each in decoded.columns), None)
    if name is None or name not in decoded.columns:
        raise ValueError(f"there is no column {column or 'value or text'}: decode the bodies first")
    return decoded.where(f.col(name).isNotNull()), decoded.where(f.col(name).isNull()).drop(name)


def dead_letters(bad: DataFrame, reason: str = "bad_body") -> DataFrame:
    """Return rows of the source as messages to publish to a dead-letter exchange.

    Headers give reason and origin: `x-dead-letter-reason`, `x-original-queue`, `x-original-exchange`,
    `x-original-routing-key`. Write the rows with the options `exchange` and `routingKey`.
    """
    from pyspark.sql import functions as f

    named = {"queue": QUEUE_HEADER, "exchange": EXCHANGE_HEADER, "routing_key": KEY_HEADER}
    pairs = [f.lit(REASON_HEADER), f.lit(reason)]
    for name, header in named.items():
        if name in bad.columns:
            pairs += [f.lit(header), f.col(name)]
    added = f.create_map(*pairs)
    if "headers" in bad.columns:
        old = f.coalesce(f.col("headers"), f.create_map().cast("map<string,string>"))
        kept = f.map_filter(old, lambda key, _: ~key.isin(REASON_HEADER, *named.values()))
        added = f.map_concat(kept, added)
    # The sink would publish typed headers in place of these.
    dropped = [name for name in ("exchange", "routing_key", "headers_typed") if name in bad.columns]
    return bad.withColumn("headers", added).drop(*dropped)
