"""Arrow schema of a message: the columns of `docs/spark.md`, and the conversion of other layouts to it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

TIME = pa.timestamp("us", "UTC")

PROPERTIES = pa.struct(
    [
        ("content_encoding", pa.string()),
        ("delivery_mode", pa.int32()),
        ("priority", pa.int32()),
        ("correlation_id", pa.string()),
        ("reply_to", pa.string()),
        ("expiration", pa.string()),
        ("type", pa.string()),
        ("user_id", pa.string()),
        ("app_id", pa.string()),
        ("cluster_id", pa.string()),
    ]
)

SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("sequence", pa.int64()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("redelivered", pa.bool_()),
        ("ingestion_time", TIME),
        ("timestamp", TIME),
        ("message_id", pa.string()),
        ("content_type", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("properties", PROPERTIES),
        ("body", pa.binary()),
    ]
)
"""Schema of `read`; `tests/arrow` compares it with that of the Spark source."""

HEADERS_TYPED = pa.field(
    "headers_typed", pa.map_(pa.string(), pa.struct([("type", pa.string()), ("value", pa.string())]))
)
"""Column that `read` has only if it is named."""


def schema_of(names: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns."""
    return pa.schema([HEADERS_TYPED if name == HEADERS_TYPED.name else SCHEMA.field(name) for name in names])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column in this schema's layout: Polars and DuckDB use other layouts of strings,
    times and maps."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return TIME
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    return kind


def type_name(kind: pa.DataType) -> str:
    """Return the name of a plain type as the sink's checks use it."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(field.name for field in kind)}>"
    return "int" if pa.types.is_integer(kind) else str(kind)
