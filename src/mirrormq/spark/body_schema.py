"""Schemas of JSON bodies for `json_body`: from a JSON Schema, or from messages of the queue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLED_MESSAGES = 1000
SAMPLED_BYTES_MAX = 8 * 1024 * 1024
"""Most messages and bytes that a schema is inferred from: they are in the driver's memory."""

SAMPLED_BODY_BYTES_MAX = 1024 * 1024
"""Longest body that a schema is inferred from."""

NESTING_MAX = 64
"""Deepest nesting of a JSON Schema. One that refers to itself has no end."""

FORMATS: Mapping[object, DataType] = {"date-time": TimestampType(), "date": DateType()}
SIMPLE: Mapping[object, DataType] = {"integer": LongType(), "number": DoubleType(), "boolean": BooleanType()}
NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


class SchemaError(ValueError):
    """Schema that cannot be used, or messages that give none."""


def infer_schema(messages: DataFrame, rows: int = SAMPLED_MESSAGES) -> StructType:
    """Return the schema of JSON bodies, from the first `rows` messages of a batch read.

    Bodies that are no JSON object are left out. A field that has values of several types is a string.
    """
    from pyspark.sql import functions as f

    if messages.isStreaming:
        raise SchemaError("a stream gives no schema: infer it from spark.read of the same queue")
    short = messages.where(f.octet_length("body") <= SAMPLED_BODY_BYTES_MAX).select("body").limit(rows)
    found: list[str] = []
    size = 0
    for row in short.toLocalIterator():
        text = _object_text(bytes(row.body))
        if text is not None:
            found.append(text)
            size += len(text)
        if size >= SAMPLED_BYTES_MAX:
            break
    if not found:
        raise SchemaError("no message has a JSON object as its body, so there is no schema")
    spark = messages.sparkSession
    rows_read = spark.range(1).select(f.schema_of_json(f.lit(f"[{','.join(found)}]")).alias("ddl")).collect()
    # Spark gives the type of an array of all bodies.
    whole = StructType.fromDDL(f"bodies {rows_read[0].ddl}")
    assert isinstance(whole, StructType)
    bodies = whole["bodies"].dataType
    assert isinstance(bodies, ArrayType) and isinstance(bodies.elementType, StructType)
    return bodies.elementType


def _object_text(body: bytes) -> str | None:
    """Return a body if it is a JSON object."""
    try:
        text = body.decode()
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, RecursionError):
        return None


def schema_of(json_schema: str | Mapping[str, Any]) -> StructType:
    """Return the columns of a JSON Schema for objects, given as a text or as its parsed form.

    Conditions on values (`required`, `minimum`, `pattern`) are not checked. A part that allows several types,
    or any, is a string with its JSON text.
    """
    if isinstance(json_schema, str):
        try:
            json_schema = json.loads(json_schema)
        except ValueError as error:
            raise SchemaError(f"the JSON Schema is no JSON: {error}") from None
    if not isinstance(json_schema, Mapping):
        raise SchemaError("the JSON Schema is no object")
    found = _Reader(json_schema).type_of(json_schema, "the schema", 0)
    if not isinstance(found, StructType):
        raise SchemaError("the JSON Schema is not of an object with properties")
    return found


class _Reader:
    """Reader of one document, whose parts may refer to each other."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def type_of(self, part: Any, where: str, depth: int) -> DataType:
        """Return the column type of a part of the document."""
        if depth > NESTING_MAX:
            raise SchemaError(f"{where} is nested more than {NESTING_MAX} deep, or refers to itself")
        if not isinstance(part, Mapping):
            return StringType()  # true: any value
        if "$ref" in part:
            return self.type_of(self._target(part["$ref"], where), where, depth + 1)
        choices = next((part[name] for name in ("anyOf", "oneOf") if name in part), None)
        if choices is not None:
            return self._common(choices, where, depth)
        names = _type_names(part)
        if names == {"object"}:
            return self._object(part, where, depth)
        if names == {"array"}:
            return ArrayType(self.type_of(part.get("items", True), f"{where}[]", depth + 1))
        if names == {"string"}:
            return FORMATS.get(part.get("format"), StringType())
        if names == {"integer", "number"}:
            return DoubleType()
        return SIMPLE.get(next(iter(names)), StringType()) if len(names) == 1 else StringType()

    def _object(self, part: Mapping[str, Any], where: str, depth: int) -> DataType:
        properties = part.get("properties")
        if isinstance(properties, Mapping) and properties:
            return StructType(
                [
                    StructField(name, self.type_of(each, f"{where}.{name}", depth + 1))
                    for name, each in properties.items()
                ]
            )
        values = part.get("additionalProperties", True)
        return MapType(StringType(), self.type_of(values, f"{where}.*", depth + 1))

    def _common(self, choices: Sequence[Any], where: str, depth: int) -> DataType:
        """Return the type that all choices but null have, otherwise string."""
        wanted = [
            each for each in choices if not (isinstance(each, Mapping) and _type_names(each) == {"null"})
        ]
        types = [self.type_of(each, where, depth + 1) for each in wanted]
        return types[0] if types and all(each == types[0] for each in types) else StringType()

    def _target(self, reference: object, where: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaError(f"{where} refers to {reference!r}, which is not in the same document")
        found: Any = self._document
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise SchemaError(f"{where} refers to {reference!r}, which does not exist")
            found = found[name]
        return found


def _type_names(part: Mapping[str, Any]) -> set[object]:
    """Return the names of the types that a part allows, without null if it allows others too."""
    given = part.get("type")
    if given is None and ("enum" in part or "const" in part):
        given = [NAMES.get(type(value), "") for value in part.get("enum", [part.get("const")])]
    if given is None and "properties" in part:
        given = "object"
    names = set(given) if isinstance(given, list) else {given}
    return names - {"null"} or {"null"}
