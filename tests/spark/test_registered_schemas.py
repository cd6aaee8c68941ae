"""Bodies of registered schemas: Avro, Protobuf and JSON Schema, from a registry and from a directory."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from mirrormq.spark.body_schema import SchemaError
from mirrormq.spark.decode import split_bad
from mirrormq.spark.protobuf_schema import message_places
from mirrormq.spark.registry_body import decode_bodies, registry_body
from mirrormq.spark.schema_registry import RegisteredSchema, RegistryError, SchemaRegistry, UnknownSchema
from tests.spark.registry_server import RegistryServer

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"

ADDRESS = {
    "type": "record", "name": "Address", "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}],
}  # fmt: skip
FIRST = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "old", "type": "string"}],
}  # fmt: skip
LINE = {
    "type": "record", "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "ref", "type": ["int", "string"]}],
}  # fmt: skip
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}


def field(name: str, kind: Any, default: Any = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "default": default}


NEWEST = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        field("total", ["null", CENTS]),
        field("placed", {"type": "long", "logicalType": "timestamp-millis"}, 0),
        field("due", ["null", {"type": "int", "logicalType": "date"}]),
        field("state", STATE, "NEW"),
        field("key", ["null", {"type": "string", "logicalType": "uuid"}]),
        field("lines", {"type": "array", "items": LINE}, []),
        field("counts", {"type": "map", "values": "int"}, {}),
        field("ratio", ["null", "int", "double"]),
        field("address", ["null", "shop.Address"]),
    ],
}  # fmt: skip


def avro(document: Any, value: Any) -> bytes:
    named: dict[str, Any] = {}
    parse_schema(ADDRESS, named_schemas=named)
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(document, named_schemas=named), value)
    return stream.getvalue()


def headed(number: int, body: bytes) -> bytes:
    return struct.pack(">BI", 0, number) + body


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def messages(spark: SparkSession, *bodies: bytes) -> DataFrame:
    rows = [(number, bytearray(body)) for number, body in enumerate(bodies)]
    return spark.createDataFrame(rows, "number int, body binary")


def values(found: DataFrame) -> list[Any]:
    return [row.value for row in found.orderBy("number").collect()]


def test_avro_bodies_of_every_version_become_the_newest(
    spark: SparkSession, registry: RegistryServer
) -> None:
    registry.register("shop.Address", AVRO, json.dumps(ADDRESS).encode())
    first = registry.register("orders-value", AVRO, json.dumps(FIRST).encode())
    newest = registry.register(
        "orders-value", AVRO, json.dumps(NEWEST).encode(), (("shop.Address", "shop.Address", 1),)
    )
    order = {
        "id": 2**40, "total": Decimal("12.34"), "placed": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "due": date(2026, 2, 1), "state": "PAID", "key": UUID(int=7), "counts": {"a": 1}, "ratio": 3,
        "lines": [{"sku": "s", "ref": 5}, {"sku": "t", "ref": "x"}], "address": {"city": "Ulm"},
    }  # fmt: skip
    good = headed(newest, avro(NEWEST, order))
    bad = [b"", b"\0\0", good[1:], good + b"!", good[:-1], headed(99, good[5:]), b"{}"]
    found = registry_body(
        messages(spark, headed(first, avro(FIRST, {"id": 1, "old": "o"})), good, *bad), registry.url,
        "orders-value",
    )  # fmt: skip
    assert found.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,total:decimal(9,2),placed:timestamp,due:date,state:string,key:string,"
        "lines:array<struct<sku:string,ref:string>>,counts:map<string,int>,ratio:double,"
        "address:struct<city:string>>"
    )
    old, new, *others = values(found.selectExpr("number", "value"))
    assert old.asDict(recursive=True) | {"placed": None} == {
        "id": 1, "total": None, "placed": None, "due": None, "state": "NEW", "key": None, "lines": [],
        "counts": {}, "ratio": None, "address": None,
    }  # fmt: skip
    assert others == [None] * len(bad)
    assert new.asDict(recursive=True) | {"placed": None} == order | {
        "placed": None, "key": str(UUID(int=7)), "ratio": 3.0,
        "lines": [{"sku": "s", "ref": "5"}, {"sku": "t", "ref": "x"}],
    }  # fmt: skip
    seconds = found.selectExpr("number", "unix_timestamp(value.placed) as value")
    assert values(seconds)[:2] == [0, 1769860800]
    is_good, is_bad = split_bad(found)
    assert (is_good.count(), is_bad.count()) == (2, len(bad))


def test_a_value_outside_its_column_is_null_and_spares_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    document = {"type": "record", "name": "n", "fields": [{"name": "n", "type": "int"}]}
    (tmp_path / "small.avsc").write_text(json.dumps(document))
    longer = {**document, "fields": [{"name": "n", "type": "long"}]}
    bodies = [avro(longer, {"n": number}) for number in (1, 2**40, 2)]
    found = registry_body(messages(spark, *bodies), str(tmp_path), "small", header=False)
    assert [value and value.n for value in values(found)] == [1, None, 2]


def shop_files() -> tuple[descriptor_pb2.FileDescriptorProto, descriptor_pb2.FileDescriptorProto]:
    """Return a file with an address, and one with orders that imports it."""
    place = descriptor_pb2.FileDescriptorProto(name="place.proto", package="shop", syntax="proto3")
    place.message_type.add(name="Address").field.add(name="city", number=1, type=9, label=1)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(
        ["place.proto", "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"]
    )
    shop.enum_type.add(name="State").value.add(name="NEW", number=0)
    shop.enum_type[0].value.add(name="PAID", number=1)
    shop.message_type.add(name="Other").field.add(name="x", number=1, type=9, label=1)
    order = shop.message_type.add(name="Order")
    scalar = {"id": 3, "size": 4, "count": 5, "ratio": 1, "paid": 8, "name": 9, "raw": 12}
    for number, (name, kind) in enumerate(scalar.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=1)
    order.field.add(name="state", number=8, type=14, label=1, type_name=".shop.State")
    order.field.add(name="tags", number=9, type=9, label=3)
    order.field.add(name="at", number=10, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="note", number=11, type=11, label=1, type_name=".google.protobuf.StringValue")
    order.field.add(name="address", number=12, type=11, label=1, type_name=".shop.Address")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    order.field.add(name="counts", number=13, type=11, label=3, type_name=".shop.Order.CountsEntry")
    return place, shop


def message_class(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in (timestamp_pb2, wrappers_pb2):
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb))
    for each in shop_files():
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_bodies_become_rows(spark: SparkSession, registry: RegistryServer, tmp_path: Path) -> None:
    place, shop = shop_files()
    registry.register("place", PROTOBUF, place.SerializeToString())
    references = (("place.proto", "place", 1),)
    number = registry.register("orders", PROTOBUF, shop.SerializeToString(), references)
    order = message_class("shop.Order")(
        id=-5, size=2**64 - 1, count=3, ratio=0.5, paid=True, name="n", raw=b"\xff", state=1, tags=["a", "b"],
        counts={"k": 7},
    )  # fmt: skip
    order.at.FromJsonString("2026-01-31T12:00:00Z")
    order.note.value = ""
    order.address.city = "Ulm"
    body = order.SerializeToString()
    other = message_class("shop.Other")(x="y").SerializeToString()
    second = b"\x02\x02"  # one step: the second type of the file
    good = headed(number, second + body)
    bad = [
        headed(number, b"\0" + other),
        headed(number, second + b"\xff"),
        headed(number, b"\x02\x0c" + body),
    ]
    bodies = messages(spark, good, headed(number, second), *bad)
    found = registry_body(bodies, registry.url, "orders", message="shop.Order")
    assert found.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,size:decimal(20,0),count:int,ratio:double,paid:boolean,name:string,raw:binary,"
        "state:string,tags:array<string>,at:timestamp,note:string,address:struct<city:string>,"
        "counts:map<string,int>>"
    )
    full, empty, *others = values(found)
    assert others == [None] * len(bad)
    expected = {
        "id": -5, "size": Decimal(2**64 - 1), "count": 3, "ratio": 0.5, "paid": True, "name": "n",
        "raw": b"\xff", "state": "PAID", "tags": ["a", "b"], "note": "",
        "address": {"city": "Ulm"}, "counts": {"k": 7},
    }  # fmt: skip
    assert full.asDict(recursive=True) == expected | {"at": full.at}
    assert values(found.selectExpr("number", "unix_timestamp(value.at) as value"))[0] == 1769860800
    assert (empty.id, empty.state, empty.at, empty.note, empty.address) == (0, "NEW", None, None, None)

    well_known = [
        descriptor_pb2.FileDescriptorProto.FromString(file.DESCRIPTOR.serialized_pb)
        for file in (timestamp_pb2, wrappers_pb2)
    ]
    files = descriptor_pb2.FileDescriptorSet(file=[*well_known, place, shop])
    (tmp_path / "orders.desc").write_bytes(files.SerializeToString())
    bare = registry_body(messages(spark, body), str(tmp_path), "orders", header=False, message="shop.Order")
    assert values(bare)[0].address.city == "Ulm"
    with pytest.raises(SchemaError, match=r"no message shop\.Missing"):
        registry_body(bodies, registry.url, "orders", message="shop.Missing")


@given(st.binary(max_size=40))
def test_places_of_message_types_are_read_or_refused(body: bytes) -> None:
    try:
        places, rest = message_places(memoryview(body))
    except ValueError:
        return
    assert all(place >= 0 for place in places) and body.endswith(bytes(rest))


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_body_ends_a_query(bodies: list[bytes]) -> None:
    content = json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "s", "type": "string"}, {"name": "m", "type": {"type": "map", "values": "long"}},
    ]}).encode()  # fmt: skip
    schema = RegisteredSchema(AVRO, content)
    found = decode_bodies(
        pa.array(bodies, pa.binary()), SchemaRegistry("/nowhere"), schema, None, header=False
    )
    assert len(found) == len(bodies)


def test_json_bodies_with_and_without_a_header(spark: SparkSession, registry: RegistryServer) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    number = registry.register("events", JSON, json.dumps(schema).encode())
    bodies = messages(spark, headed(number, b'{"id": 1}'), b'{"id": 2}', b"\0", b"")
    headers = registry_body(bodies, registry.url, "events")
    assert [value and value.id for value in values(headers)] == [1, None, None, None]
    bare = registry_body(bodies, registry.url, "events", header=False)
    assert [value and value.id for value in values(bare)] == [None, 2, None, None]


def test_a_registry_that_fails_is_asked_again_and_never_read_as_bad_bodies(
    spark: SparkSession, registry: RegistryServer
) -> None:
    number = registry.register("first", AVRO, json.dumps(FIRST).encode())
    registry.failures = 2
    body = headed(number, avro(FIRST, {"id": 1, "old": "o"}))
    found = registry_body(messages(spark, body), registry.url, "first")
    registry.failures = 10**6
    with pytest.raises(PythonException, match="gives no schema 1: HTTP status 503") as raised:
        values(found)
    assert "p%40ss" not in str(raised.value)
    registry.failures = 0
    assert values(found)[0].id == 1


def test_a_schema_is_fetched_once_for_each_number(registry: RegistryServer) -> None:
    number = registry.register("first", AVRO, json.dumps(FIRST).encode())
    found = SchemaRegistry(registry.url)
    schema = found.latest("first")
    body = headed(number, avro(FIRST, {"id": 1, "old": "o"}))
    registry.requests.clear()
    for _ in range(3):
        bodies = pa.array([body, headed(9, b""), headed(9, b"")], pa.binary())
        assert decode_bodies(bodies, found, schema, None, header=True) == [{"id": 1, "old": "o"}, None, None]
    assert registry.requests == [f"/schemas/ids/{number}", *["/schemas/ids/9"] * 3]


def test_mistakes_are_one_sentence(registry: RegistryServer, tmp_path: Path) -> None:
    with pytest.raises(UnknownSchema, match=r"127\.0\.0\.1:\d+ has no schema orders$"):
        SchemaRegistry(registry.url).latest("orders")
    with pytest.raises(UnknownSchema, match=r"has no orders\.avsc, orders\.json or orders\.desc"):
        SchemaRegistry(str(tmp_path)).latest("orders")
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.avsc").write_text("{}")
    with pytest.raises(UnknownSchema):
        SchemaRegistry(str(tmp_path / "inside")).latest("../outside")
    other = registry.url.replace("p%40ss", "wrong")
    with pytest.raises(RegistryError, match="HTTP status 401"):
        SchemaRegistry(other).latest("orders")
    assert "wrong" not in repr(SchemaRegistry(other))
    assert len([path for path in registry.requests if "orders" in path]) == 2, "a refusal is not repeated"
