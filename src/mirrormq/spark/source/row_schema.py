"""Columns of a message."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

PROPERTIES = StructType(
    [
        StructField("content_encoding", StringType()),
        StructField("delivery_mode", IntegerType()),
        StructField("priority", IntegerType()),
        StructField("correlation_id", StringType()),
        StructField("reply_to", StringType()),
        StructField("expiration", StringType()),
        StructField("type", StringType()),
        StructField("user_id", StringType()),
        StructField("app_id", StringType()),
        StructField("cluster_id", StringType()),
    ]
)
"""Properties without a separate column, under their AMQP names."""

COLUMNS = StructType(
    [
        StructField("queue", StringType()),
        StructField("sequence", LongType()),
        StructField("exchange", StringType()),
        StructField("routing_key", StringType()),
        StructField("redelivered", BooleanType()),
        StructField("ingestion_time", TimestampType()),
        StructField("timestamp", TimestampType()),
        StructField("message_id", StringType()),
        StructField("content_type", StringType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("properties", PROPERTIES),
        StructField("body", BinaryType()),
    ]
)

HEADERS_TYPED = StructField(
    "headers_typed",
    MapType(
        StringType(), StructType([StructField("type", StringType()), StructField("value", StringType())])
    ),
)
"""Column on request: headers with their AMQP types, from which a replay restores them."""


def columns(names: Sequence[str]) -> StructType:
    """Return the columns with these names, in their order."""
    return StructType([HEADERS_TYPED if name == HEADERS_TYPED.name else COLUMNS[name] for name in names])
