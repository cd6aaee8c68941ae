"""Properties of many messages at once are those that the decoder of single messages finds."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirrormq.arrow.message_schema import HEADERS_TYPED
from mirrormq.errors import AmqpError
from mirrormq.spark.source.header_columns import header_text
from mirrormq.spark.source.property_columns import TIMESTAMP_MAX_S, PropertyColumns
from mirrormq.spark.typed_fields import field_of, typed_value
from mirrormq.wire.fields import Field, ScaledDecimal, Table, encode_table
from mirrormq.wire.properties import (
    PROPERTY_TYPES,
    BasicProperties,
    decode_properties,
    encode_properties,
)

MAP = pa.map_(pa.string(), pa.string())
TYPED = HEADERS_TYPED.type
TIMESTAMP = pa.timestamp("us", "UTC")
MICROSECONDS = 1_000_000

SHORT = st.text(st.characters(codec="utf-8"), max_size=9)
NUMBERS = {"b": 8, "s": 16, "I": 32, "l": 64}
UNSIGNED = {"B": 8, "u": 16, "i": 32, "T": 64}


def integers(kind: str, least: int, most: int) -> st.SearchStrategy[Field]:
    """Strategy for the fields of an integer type."""
    return st.integers(least, most).map(lambda value: Field(kind, value))


FIELDS = st.recursive(
    st.one_of(
        st.binary(max_size=9).map(lambda value: Field("S", value)),
        st.binary(max_size=3).map(lambda value: Field("x", value)),
        st.booleans().map(lambda value: Field("t", value)),
        st.just(Field("V", None)),
        st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: Field("d", value)),
        st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda value: Field("f", value)),
        st.integers(0, 999).map(lambda value: Field("D", ScaledDecimal(2, value))),
        *(integers(kind, -(1 << size - 1), (1 << size - 1) - 1) for kind, size in NUMBERS.items()),
        *(integers(kind, 0, (1 << size) - 1) for kind, size in UNSIGNED.items()),
    ),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda value: Field("A", value))
        | st.dictionaries(SHORT, inner, max_size=2).map(lambda value: Field("F", value))
    ),
    max_leaves=3,
)
TABLES = st.dictionaries(SHORT, FIELDS, max_size=5)
VALUES = {
    "shortstr": SHORT,
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, (1 << 64) - 1),
    "table": TABLES,
}
PROPERTIES = st.builds(
    BasicProperties, **{name: st.none() | VALUES[kind] for name, kind in PROPERTY_TYPES.items()}
)


def columns(encoded: Sequence[bytes]) -> list[dict[str, object]]:
    offsets = array("i", accumulate(map(len, encoded), initial=0)).tobytes()
    found = PropertyColumns(memoryview(offsets), memoryview(b"".join(encoded)))
    made: dict[str, pa.Array] = {}
    for name, kind in PROPERTY_TYPES.items():
        if kind == "table":
            made[name] = found.headers(MAP)
            made["headers_typed"] = found.headers(TYPED)
        elif kind == "timestamp":
            made[name] = found.timestamps(TIMESTAMP).cast(pa.int64())
        else:
            made[name] = found.octets(name, pa.int32()) if kind == "octet" else found.texts(name)
        made[name].validate(full=True)
    rows: list[dict[str, object]] = pa.table(made).to_pylist(maps_as_pydicts="strict")
    return rows


def expected(encoded: bytes) -> dict[str, object] | None:
    """Return the properties as the decoder of single messages reads them; None if they are malformed."""
    try:
        found = decode_properties(encoded, 0)._asdict()
    except AmqpError:
        return None
    row: dict[str, object] = {}
    for name, value in found.items():
        if isinstance(value, str):
            row[name] = readable(value)
        elif isinstance(value, dict):
            row[name] = {readable(key): header_text(field) for key, field in value.items()}
            typed = {readable(key): typed_value(field) for key, field in value.items()}
            row["headers_typed"] = {key: {"type": pair[0], "value": pair[1]} for key, pair in typed.items()}
        elif name == "timestamp" and value is not None:
            row[name] = None if value > TIMESTAMP_MAX_S else value * MICROSECONDS
        else:
            row[name] = value
    return {"headers_typed": None, **row}


def readable(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def twice(name: bytes, count: int = 2) -> bytes:
    """Return properties whose headers have a name more than once."""
    entries = b"".join(
        bytes([len(name)]) + name + b"I" + number.to_bytes(4, "big") for number in range(count)
    )
    return b"\x20\x00" + len(entries).to_bytes(4, "big") + entries


@given(st.lists(PROPERTIES, max_size=6))
@example([BasicProperties(headers={"n" * 40 + str(number): Field("V", None) for number in range(50)})])
def test_columns_have_what_single_messages_have(messages: list[BasicProperties]) -> None:
    encoded = [encode_properties(each) for each in messages]
    assert columns(encoded) == [expected(each) for each in encoded]


@given(FIELDS)
def test_a_typed_value_restores_its_field(field: Field) -> None:
    assert field_of(*typed_value(field)) == field


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int", "5"), (None, "x"), ("long", "five"), ("long", None), ("byte", "128"), ("unsignedbyte", "-1"),
        ("bool", "yes"), ("double", "nan"), ("double", "inf"), ("binary", "?"), ("longstr_base64", "!"),
        ("longstr", None), ("decimal", "5"), ("decimal", "5e-256"), ("table", "[]"), ("table", "{"),
        ("table", '{"a": "b"}'), ("array", '[["long", "x"]]'), ("timestamp", "-1"),
    ],
)  # fmt: skip
def test_a_typed_value_that_is_none_is_refused(name: str | None, text: str | None) -> None:
    with pytest.raises(ValueError, match=r"a header of type .* has the value .*, which is none"):
        field_of(name, text)


def test_the_first_of_several_headers_of_one_name_counts() -> None:
    sound = encode_properties(BasicProperties(headers={"a": Field("S", b"x"), "b": Field("S", b"y")}))
    encoded = [sound, twice(b"name"), twice(b"a-longer-name", 40), sound]
    assert columns(encoded) == [expected(each) for each in encoded]
    assert columns(encoded)[2]["headers"] == {"a-longer-name": "0"}


@given(st.lists(PROPERTIES.map(encode_properties), min_size=1, max_size=4), st.data())
def test_malformed_properties_give_nulls_and_spare_the_others(
    encoded: list[bytes], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(encoded) - 1))
    spoilt = bytearray(encoded[place])
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    encoded[place] = bytes(spoilt[: data.draw(st.integers(0, len(spoilt)))])
    found = columns(encoded)
    for number, each in enumerate(encoded):
        wanted = expected(each)
        if wanted is not None:
            assert found[number] == wanted
        elif number != place:
            raise AssertionError("only one message is malformed")


def test_a_table_that_is_longer_than_its_message_is_malformed() -> None:
    sound = encode_properties(BasicProperties(headers={"a": Field("S", b"x")}, cluster_id="c"))
    longer = b"\x20\x00" + (99).to_bytes(4, "big") + b"\x01aA\x00\x00\x00\x10"
    found = columns([longer, sound, sound])
    assert all(value is None for value in found[0].values())
    assert found[1] == found[2] == expected(sound)


def test_a_malformed_table_is_null_and_the_rest_is_read() -> None:
    sound: Table = {"a": Field("S", b"x")}
    table = bytearray(encode_table(sound))
    table[6] = ord("?")
    encoded = b"\x30\x00" + bytes(table) + b"\x02"
    (row,) = columns([encoded])
    assert (row["headers"], row["delivery_mode"]) == (None, 2)
    assert all(value is None for value in columns([b"\x80\x00\x09ab"])[0].values())
