"""Structured bodies: a schema from a JSON Schema or from the messages decodes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest
from pyspark.sql import DataFrame, SparkSession

from mirrormq.spark import register
from mirrormq.spark.body_schema import SAMPLED_BODY_BYTES_MAX, SchemaError, infer_schema, schema_of
from mirrormq.spark.decode import json_body, split_bad

QUEUE = "structured"
ORDERS = [
    {"id": 1, "total": 2, "lines": [{"sku": "a", "count": 3}], "placed": "2026-01-31T12:00:00Z"},
    {"id": 2, "total": 2.5, "lines": [], "ref": "x", "labels": {"a": "b"}},
    {"id": 3, "total": None, "ref": 7},
]


@pytest.fixture
def messages(spark: SparkSession, uri: str) -> Iterator[DataFrame]:
    """Orders in a queue, with other bodies among them."""
    register(spark)
    with pika.BlockingConnection(pika.URLParameters(uri)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        bodies = [json.dumps(order).encode() for order in ORDERS]
        long = json.dumps({"long": "x" * SAMPLED_BODY_BYTES_MAX}).encode()
        for body in (*bodies, b"[1]", b"{", b"\xff", b"", long):
            channel.basic_publish("", QUEUE, body)
        channel.queue_declare(QUEUE, passive=True)
        yield spark.read.format("mirrormq").options(uri=uri, queue=QUEUE).load()
        channel.queue_delete(QUEUE)


def test_a_schema_is_inferred_from_the_messages(messages: DataFrame) -> None:
    schema = infer_schema(messages)
    assert {field.name: field.dataType.simpleString() for field in schema} == {
        "id": "bigint", "total": "double", "lines": "array<struct<count:bigint,sku:string>>",
        "placed": "string", "ref": "string", "labels": "struct<a:string>",
    }  # fmt: skip
    good, _ = split_bad(json_body(messages, schema))
    rows = good.where("value.id is not null").selectExpr("value.*").orderBy("id").collect()
    assert [(row.id, row.total, row.ref) for row in rows] == [(1, 2.0, None), (2, 2.5, "x"), (3, None, "7")]
    assert rows[0].lines[0].sku == "a"
    assert infer_schema(messages, rows=1).names == ["id", "lines", "placed", "total"]


def test_a_json_schema_decodes_the_messages(messages: DataFrame) -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
    document = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "placed": {"type": "string", "format": "date-time"},
            "lines": {"type": "array", "items": line},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "ref": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    decoded = json_body(messages, schema_of(json.dumps(document))).where("value.id is not null")
    seconds = "unix_timestamp(value.placed) as placed"
    rows = decoded.selectExpr("value.*", seconds).orderBy("id").collect()
    assert [row[-1] for row in rows] == [1769860800, None, None]
    assert [row.ref for row in rows] == [None, "x", "7"]
    assert rows[0].lines[0]["count"] == 3 and rows[1].labels == {"a": "b"}


def test_messages_without_objects_and_streams_give_no_schema(
    spark: SparkSession, uri: str, messages: DataFrame
) -> None:
    with pytest.raises(SchemaError, match="no message has a JSON object as its body"):
        infer_schema(messages.where("length(body) < 4"))
    stream = spark.readStream.format("mirrormq").options(uri=uri, queue=QUEUE).load()
    with pytest.raises(SchemaError, match=r"infer it from spark\.read of the same queue"):
        infer_schema(stream)
