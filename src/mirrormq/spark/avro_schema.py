"""Avro: schemas as column types, bodies as values of these types."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from mirrormq.spark.body_schema import NESTING_MAX, SchemaError
from mirrormq.spark.schema_registry import RegisteredSchema

SIMPLE: Mapping[str, DataType] = {
    "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(),
    "double": DoubleType(), "bytes": BinaryType(), "fixed": BinaryType(), "string": StringType(),
    "enum": StringType(),
}  # fmt: skip
LOGICAL: Mapping[str, DataType] = {
    "date": DateType(), "timestamp-millis": TimestampType(), "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(), "local-timestamp-micros": TimestampNTZType(),
}  # fmt: skip
AS_TEXT = ("uuid", "time-millis", "time-micros")
"""Logical types that Python decodes to objects without a column type."""
NUMBERS = {"int": 0, "long": 1, "float": 2, "double": 3}
"""Number types, each after those that it may replace."""
DECIMAL_DIGITS_MAX = 38

Shape = Callable[[Any], Any]


class AvroColumn(NamedTuple):
    """Type of a column, and the conversion of decoded values to it; None if they are of that type."""

    type: DataType
    shape: Shape | None = None


def parsed(schema: RegisteredSchema) -> tuple[Any, dict[str, Any]]:
    """Return the schema as fastavro reads it, with all named types."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, Any] = {}
    try:
        return _parse(schema, named, parse_schema), named
    except (SchemaParseException, UnknownType, ValueError) as error:
        raise SchemaError(f"the Avro schema cannot be used: {error}") from None


def _parse(schema: RegisteredSchema, named: dict[str, Any], parse_schema: Callable[..., Any]) -> Any:
    for _, referred in schema.references:
        _parse(referred, named, parse_schema)
    document = json.loads(schema.content)
    name = document.get("name") if isinstance(document, dict) else None
    space = document.get("namespace") if isinstance(document, dict) else None
    full = f"{space}.{name}" if space and name and "." not in name else name
    # Two references may lead to one schema, which is parsed once.
    return named[full] if full in named else parse_schema(document, named_schemas=named)


def column_of(schema: Any, named: Mapping[str, Any], where: str = "the schema", depth: int = 0) -> AvroColumn:
    """Return the column of a parsed schema."""
    if depth > NESTING_MAX:
        raise SchemaError(f"{where} is nested more than {NESTING_MAX} deep, or refers to itself")
    if isinstance(schema, list):
        return _union(schema, named, where, depth)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        return column_of(kind, named, where, depth + 1)
    if kind in named and kind not in SIMPLE:
        return column_of(named[kind], named, where, depth + 1)
    if kind == "record":
        return _record(schema, named, where, depth)
    if kind == "array":
        items, shape = column_of(schema["items"], named, f"{where}[]", depth + 1)
        return AvroColumn(ArrayType(items), None if shape is None else _list_of(shape))
    if kind == "map":
        values, shape = column_of(schema["values"], named, f"{where}.*", depth + 1)
        return AvroColumn(MapType(StringType(), values), _pairs_of(shape))
    if logical == "decimal" and schema.get("precision", 0) <= DECIMAL_DIGITS_MAX:
        return AvroColumn(DecimalType(schema["precision"], schema.get("scale", 0)))
    if logical in AS_TEXT:
        return AvroColumn(StringType(), str)
    if logical == "decimal" or kind not in SIMPLE:
        return AvroColumn(StringType(), _text)
    return AvroColumn(LOGICAL.get(logical, SIMPLE[kind]))


def _record(schema: Mapping[str, Any], named: Mapping[str, Any], where: str, depth: int) -> AvroColumn:
    fields = [
        (each["name"], column_of(each["type"], named, f"{where}.{each['name']}", depth + 1))
        for each in schema["fields"]
    ]
    shapes = {name: column.shape for name, column in fields if column.shape is not None}

    def shape(record: Any) -> Any:
        for name, each in shapes.items():
            if record[name] is not None:
                record[name] = each(record[name])
        return record

    found = StructType([StructField(name, column.type) for name, column in fields])
    return AvroColumn(found, shape if shapes else None)


def _union(schema: list[Any], named: Mapping[str, Any], where: str, depth: int) -> AvroColumn:
    """Return the type of the only choice beside null, the widest of numbers, otherwise JSON text."""
    choices = [each for each in schema if each != "null"]
    if len(choices) == 1:
        return column_of(choices[0], named, where, depth)
    if choices and all(isinstance(each, str) and each in NUMBERS for each in choices):
        widest = SIMPLE[max(choices, key=NUMBERS.__getitem__)]
        return AvroColumn(widest, float if isinstance(widest, (FloatType, DoubleType)) else None)
    return AvroColumn(StringType(), _text)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=lambda each: each.hex() if isinstance(each, bytes) else str(each))


def _list_of(shape: Shape) -> Shape:
    return lambda values: [None if value is None else shape(value) for value in values]


def _pairs_of(shape: Shape | None) -> Shape:
    if shape is None:
        return lambda values: list(values.items())
    return lambda values: [(name, None if value is None else shape(value)) for name, value in values.items()]


class AvroDecoder:
    """Decoder of bodies into a reader's schema, from the schema that each was written with."""

    def __init__(self, reader: RegisteredSchema) -> None:
        self._reader, named = parsed(reader)
        self._column = column_of(self._reader, named)
        if not isinstance(self._column.type, StructType):
            raise SchemaError("the Avro schema is not of a record")
        self.type = self._column.type

    def bare(self, body: memoryview) -> Any:
        """Decode a body of the reader's schema. It raises any exception for other bodies."""
        return _read(body, self._reader, None, self._column.shape)

    def writer(self, schema: RegisteredSchema) -> Callable[[memoryview], Any]:
        """Return the decoder of bodies with this schema. It raises any exception for other bodies."""
        written, _ = parsed(schema)
        reader = None if written == self._reader else self._reader
        return lambda body: _read(body, written, reader, self._column.shape)


def _read(body: memoryview, written: Any, reader: Any, shape: Shape | None) -> Any:
    from fastavro import schemaless_reader

    stream = io.BytesIO(body)
    record = schemaless_reader(stream, written, reader)
    if stream.tell() != len(body):
        raise ValueError("octets follow the record")
    return record if shape is None else shape(record)
