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


def columns(names: Sequence[str]) -> StructType:
    """Return the columns with these names, in their order."""
    return StructType([COLUMNS[name] for name in names])
