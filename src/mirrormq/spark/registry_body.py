"""Message bodies of a registered schema (Avro, Protobuf, JSON Schema) as columns.

from mirrormq.spark.registry_body import registry_body

orders = registry_body(messages, "http://registry:8081", "orders-value")

The driver fetches the newest schema of the subject, which gives the column's type for the life of the query.
Tasks fetch the schema that a body was written with, by the number in its header, once per process. A task
whose registry does not answer fails; only what the registry says is a body's fault gives null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mirrormq.spark.body_schema import SchemaError, schema_of
from mirrormq.spark.decode import parsed_json
from mirrormq.spark.schema_registry import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    PROTOBUF_FILES,
    SCHEMAS_MAX,
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchema,
    schema_of_number,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from mirrormq.spark.avro_schema import AvroDecoder
    from mirrormq.spark.protobuf_schema import ProtobufDecoder

HEADER = struct.Struct(">BI")
"""Header of a body: zero, and the number of its schema."""

Decode = Callable[[memoryview], Any]


def registry_body(
    messages: DataFrame,
    registry: SchemaRegistry | str,
    subject: str,
    column: str = "value",
    *,
    header: bool = True,
    message: str | None = None,
) -> DataFrame:
    """Return the rows with the body, decoded into the newest schema of a subject, in a new column.

    A body that is not of such a schema gives null. With `header=False` bodies have no header and are of the
    subject's schema itself. `message` names the Protobuf message type; the default is the first in its file.
    """
    from pyspark.sql import functions as f

    where = SchemaRegistry(registry) if isinstance(registry, str) else registry
    schema = where.latest(subject)
    if schema.kind == JSON_SCHEMA:
        body: Column = f.col("body")
        if header:
            body = f.when(
                f.expr("substring(body, 1, 1) = X'00'"), f.expr(f"substring(body, {HEADER.size + 1})")
            )
        text = schema.content.decode()
        return messages.withColumn(column, parsed_json(body, schema_of(text)))
    return messages.withColumn(column, _decoded(where, schema, message, header))


@lru_cache(maxsize=SCHEMAS_MAX)
def decoder_of(schema: RegisteredSchema, message: str | None) -> AvroDecoder | ProtobufDecoder:
    """Return the decoder of a schema, made once per process."""
    if schema.kind == AVRO:
        _require("fastavro")
        from mirrormq.spark.avro_schema import AvroDecoder

        return AvroDecoder(schema)
    if schema.kind not in (PROTOBUF, PROTOBUF_FILES):
        raise SchemaError(f"the registry has a schema of the kind {schema.kind}, which is not known")
    _require("google.protobuf")
    from mirrormq.spark.protobuf_schema import ProtobufDecoder

    return ProtobufDecoder(schema, message)


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise SchemaError(f"{package} is missing: run pip install 'mirrormq[schemas]' for driver and workers")


@lru_cache(maxsize=SCHEMAS_MAX)
def _written(registry: SchemaRegistry, schema: RegisteredSchema, message: str | None, number: int) -> Decode:
    """Return the decoder of bodies whose header has this number."""
    return decoder_of(schema, message).writer(schema_of_number(registry, number))


def _decoded(registry: SchemaRegistry, schema: RegisteredSchema, message: str | None, header: bool) -> Column:
    """Return the body, decoded by Python."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions
    from pyspark.sql.pandas.types import to_arrow_type

    kind = decoder_of(schema, message).type
    arrow = to_arrow_type(kind, timezone="UTC")

    def decode(bodies: Any) -> Any:
        values = decode_bodies(bodies, registry, schema, message, header=header)
        try:
            return pa.array(values, arrow)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            # A value is outside its column's range.
            return pa.concat_arrays([_single(value, arrow) for value in values])

    # Spark reads the argument types from these annotations, as in `decode.py`.
    decode.__annotations__ = {"bodies": pa.Array, "return": pa.Array}
    make: Callable[..., Callable[[str], Column]] = functions.arrow_udf
    return make(decode, kind)("body")


def _single(value: Any, arrow: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array([value], arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.nulls(1, arrow)


def decode_bodies(
    bodies: Any, registry: SchemaRegistry, schema: RegisteredSchema, message: str | None, *, header: bool
) -> list[Any]:
    """Return the value of each body of an Arrow array; None for those of no known schema."""
    bare = None if header else decoder_of(schema, message).bare
    unknown: set[int] = set()
    """Numbers that the registry does not have. A later call asks again: registries are replicated late."""
    values = []
    for found in bodies:
        body = memoryview(found.as_buffer() or b"") if found.is_valid else memoryview(b"")
        decode: Decode | None = bare
        if header:
            decode, body = _by_header(body, registry, schema, message, unknown)
        values.append(None if decode is None else _value(decode, body))
    return values


def _by_header(
    body: memoryview,
    registry: SchemaRegistry,
    schema: RegisteredSchema,
    message: str | None,
    unknown: set[int],
) -> tuple[Decode | None, memoryview]:
    if len(body) < HEADER.size or body[0]:
        return None, body
    _, number = HEADER.unpack_from(body)
    if number not in unknown:
        try:
            return _written(registry, schema, message, number), body[HEADER.size :]
        except (UnknownSchema, SchemaError):
            unknown.add(number)
    return None, body


def _value(decode: Decode, body: memoryview) -> Any:
    try:
        return decode(body)
    except Exception:  # decoders raise whatever the octets lead to
        return None
