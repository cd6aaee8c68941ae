"""Columns of JSON Schemas. `tests/spark/test_structured_bodies.py` decodes bodies with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import DataType

from mirrormq.spark.body_schema import SchemaError, schema_of

ORDER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "total": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "placed": {"type": "string", "format": "date-time"},
        "due": {"type": "string", "format": "date"},
        "state": {"enum": ["open", "closed", None]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "amount": {"type": ["integer", "number"]},
        "anything": True,
        "size": {"const": 5},
    },
    "$defs": {
        "line": {"properties": {"sku": {"type": "string"}, "a/b": {"$ref": "#/$defs/a~1b"}}},
        "a/b": {"type": "integer"},
    },
}


def ddl(found: DataType) -> str:
    return found.simpleString()


def test_a_json_schema_becomes_columns() -> None:
    assert {field.name: ddl(field.dataType) for field in schema_of(json.dumps(ORDER))} == {
        "id": "bigint", "total": "double", "paid": "boolean", "placed": "timestamp", "due": "date",
        "state": "string", "lines": "array<struct<sku:string,a/b:bigint>>", "labels": "map<string,string>",
        "note": "string", "either": "string", "amount": "double", "anything": "string", "size": "bigint",
    }  # fmt: skip
    assert schema_of(ORDER) == schema_of(json.dumps(ORDER))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "the JSON Schema is no JSON"),
        ("[1]", "the JSON Schema is no object"),
        ({"type": "string"}, "not of an object with properties"),
        ({"type": "object"}, "not of an object with properties"),
        (
            {"properties": {"a": {"$ref": "other.json"}}},
            "the schema.a refers to 'other.json', which is not in the",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}}, "refers to '#/\\$defs/a', which does not exist"),
        ({"properties": {"a": {"$ref": "#"}}}, "nested more than 64 deep, or refers to itself"),
    ],
)
def test_a_schema_without_columns_is_refused(document: str | dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        schema_of(document)
