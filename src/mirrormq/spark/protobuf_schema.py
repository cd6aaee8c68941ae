"""Protobuf: message types as column types, bodies as values of these types."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mirrormq.spark.body_schema import NESTING_MAX, SchemaError
from mirrormq.spark.schema_registry import PROTOBUF_FILES, RegisteredSchema

WELL_KNOWN = {
    f"google/protobuf/{name}.proto"
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
}
"""Files that schemas import and registries do not keep. None of them imports another."""

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}
AS_JSON = {
    f"google.protobuf.{name}"
    for name in ("Any", "Duration", "Empty", "FieldMask", "ListValue", "Struct", "Value")
}
"""Messages whose JSON form is a text or of any shape: a string."""

SCALARS: Mapping[int, DataType] = {
    1: IntegerType(), 2: LongType(), 3: LongType(), 4: DecimalType(20, 0), 5: DoubleType(), 6: FloatType(),
    7: BooleanType(),
}  # fmt: skip
"""Types by FieldDescriptor.cpp_type; 4 is uint64, which has up to 20 digits."""

VARINT_BYTES_MAX = 10
"""Longest integer of Protobuf, of 64 bits."""

Shape = Callable[[Any], Any]


def pool_of(schema: RegisteredSchema) -> tuple[Any, Any]:
    """Return the pool of all types of a schema, and the descriptor of its own file."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    pool = DescriptorPool()
    try:
        files = {each.name: each for each in _files(schema)}
        for each in files.values():
            for name in each.dependency:
                if name not in files and name in WELL_KNOWN:
                    pool.Add(_well_known(name))
        for each in files.values():
            pool.Add(each)
        return pool, pool.FindFileByName(list(files)[-1])
    except (DecodeError, KeyError, TypeError) as error:
        raise SchemaError(f"the Protobuf schema cannot be used: {error}") from None


def _files(schema: RegisteredSchema, name: str = "schema.proto") -> Iterator[Any]:
    """Yield the file descriptors of a schema, each after those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    if schema.kind == PROTOBUF_FILES:
        yield from FileDescriptorSet.FromString(schema.content).file
        return
    for referred, content in schema.references:
        yield from _files(content, referred)
    file = FileDescriptorProto.FromString(schema.content)
    file.name = name  # others import it under the name of their reference
    yield file


def _well_known(name: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


class ProtobufColumns:
    """Column types of messages, and the conversions of their values."""

    def column_of(self, descriptor: Any, where: str, depth: int = 0) -> tuple[DataType, Shape]:
        """Return the column of a message type."""
        if depth > NESTING_MAX:
            raise SchemaError(f"{where} is nested more than {NESTING_MAX} deep, or refers to itself")
        name = descriptor.full_name
        if name == TIMESTAMP:
            return TimestampType(), _time
        if name in WRAPPERS:
            kind, _ = self._scalar(descriptor.fields_by_name["value"])
            return kind, lambda message: message.value
        if name in AS_JSON:
            return StringType(), _json
        fields = [
            (each.name, *self._field(each, f"{where}.{each.name}", depth + 1)) for each in descriptor.fields
        ]

        def shape(message: Any) -> dict[str, Any]:
            return {name: read(message) for name, _, read in fields}

        return StructType([StructField(name, kind) for name, kind, _ in fields]), shape

    def _field(self, field: Any, where: str, depth: int) -> tuple[DataType, Shape]:
        """Return the type of a field, and the conversion of a message to the field's value."""
        name = field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, key_shape = self._single(field.message_type.fields_by_name["key"], where, depth)
            value, shape = self._single(field.message_type.fields_by_name["value"], where, depth)
            return MapType(key, value), lambda message: [
                (key_shape(each), shape(found)) for each, found in getattr(message, name).items()
            ]
        kind, shape = self._single(field, where, depth)
        if field.is_repeated:
            return ArrayType(kind), lambda message: [shape(each) for each in getattr(message, name)]
        if field.has_presence:
            return kind, lambda message: shape(getattr(message, name)) if message.HasField(name) else None
        return kind, lambda message: shape(getattr(message, name))

    def _single(self, field: Any, where: str, depth: int) -> tuple[DataType, Shape]:
        if field.message_type is not None:
            return self.column_of(field.message_type, where, depth)
        return self._scalar(field)

    def _scalar(self, field: Any) -> tuple[DataType, Shape]:
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return StringType(), lambda number: names.get(number, str(number))
        if field.cpp_type == field.CPPTYPE_STRING:
            return (BinaryType() if field.type == field.TYPE_BYTES else StringType()), _same
        return SCALARS[field.cpp_type], Decimal if field.cpp_type == field.CPPTYPE_UINT64 else _same


def _same(value: Any) -> Any:
    return value


def _time(stamp: Any) -> datetime:
    return stamp.ToDatetime(UTC)  # type: ignore[no-any-return]


def _json(message: Any) -> str:
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(message)
    return found if isinstance(found, str) else json.dumps(found)


class ProtobufDecoder:
    """Decoder of bodies into one message type. Its fields are found by number, whatever the writer's are."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        from google.protobuf.message_factory import GetMessageClass

        pool, file = pool_of(schema)
        if message is None:
            descriptor = next(iter(file.message_types_by_name.values()), None)
        else:
            try:
                descriptor = pool.FindMessageTypeByName(message)
            except KeyError:
                descriptor = None
        if descriptor is None:
            raise SchemaError(f"the Protobuf schema has no message {message or 'at all'}")
        self._name = descriptor.full_name
        self._class = GetMessageClass(descriptor)
        kind, self._shape = ProtobufColumns().column_of(descriptor, "the schema")
        if not isinstance(kind, StructType):
            raise SchemaError(f"{self._name} has no fields: name another message")
        self.type = kind

    def bare(self, body: memoryview) -> Any:
        """Decode a body without a header. It raises any exception for other bodies."""
        return self._shape(self._class.FromString(bytes(body)))

    def writer(self, schema: RegisteredSchema) -> Shape:
        """Return the decoder of bodies of this schema, which begin with the place of their message type."""
        _, file = pool_of(schema)
        top = list(file.message_types_by_name.values())

        def decode(body: memoryview) -> Any:
            places, rest = message_places(body)
            found, types = None, top
            for place in places:
                found = types[place]
                types = found.nested_types
            if found is None or found.full_name != self._name:
                raise ValueError("the body is of another message type")
            return self.bare(rest)

        return decode


def message_places(body: memoryview) -> tuple[list[int], memoryview]:
    """Read the place of a message type: among the types of its file, then among those inside that, and so on.

    It is a list of integers with their number before it, all in Protobuf's notation of signed integers. A
    single zero stands for the first type.
    """
    count, rest = _signed(body)
    if not 0 <= count <= NESTING_MAX:
        raise ValueError("a message type is not nested as deep")
    places = []
    for _ in range(count):
        place, rest = _signed(rest)
        if place < 0:
            raise ValueError("a place in a file is not negative")
        places.append(place)
    return places or [0], rest


def _signed(body: memoryview) -> tuple[int, memoryview]:
    value = 0
    for shift, octet in enumerate(body[:VARINT_BYTES_MAX]):
        value |= (octet & 0x7F) << 7 * shift
        if octet < 0x80:
            return value >> 1 ^ -(value & 1), body[shift + 1 :]
    raise ValueError("an integer does not end")
