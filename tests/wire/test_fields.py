"""Field tables: keep every value's type, refuse malformed input, agree with pamqp."""

from __future__ import annotations

import decimal
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode

from mirrormq.errors import FrameSyntaxError
from mirrormq.wire import fields
from mirrormq.wire.fields import Field, ScaledDecimal, decode_table, encode_table, field, plain, table_of
from tests.wire.strategies import tables


@given(tables)
def test_a_table_survives_the_wire_with_every_type(table: fields.Table) -> None:
    encoded = encode_table(table)
    decoded, end = decode_table(b"before" + encoded + b"after", 6)
    assert decoded == table
    assert end == 6 + len(encoded)
    assert list(decoded) == list(table)


@given(tables)
def test_a_table_cut_anywhere_is_refused(table: fields.Table) -> None:
    encoded = encode_table(table)
    for size in range(len(encoded)):
        with pytest.raises(FrameSyntaxError):
            decode_table(encoded[:size], 0)


@given(st.binary(max_size=60))
def test_garbage_never_raises_anything_else(garbage: bytes) -> None:
    try:
        decode_table(len(garbage).to_bytes(4, "big") + garbage, 0)
    except FrameSyntaxError:
        pass


def test_pamqp_reads_what_we_write() -> None:
    table = table_of({"flag": True, "small": -5, "big": 1 << 40, "ratio": 2.5, "text": "é", "none": None})
    table |= table_of({"nested": {"list": [1, "two", [3]]}, "when": datetime(2020, 1, 2, tzinfo=UTC)})
    _, seen = pamqp_decode.field_table(encode_table(table))
    assert seen == {
        "flag": True,
        "small": -5,
        "big": 1 << 40,
        "ratio": 2.5,
        "text": "é",
        "none": None,
        "nested": {"list": [1, "two", [3]]},
        "when": datetime(2020, 1, 2, tzinfo=UTC),
    }


def test_the_first_of_two_equal_names_counts() -> None:
    entries = b"\x01aI\x00\x00\x00\x01" + b"\x01aI\x00\x00\x00\x02"
    assert decode_table(fields.encode_long_string(entries), 0)[0] == {"a": Field("I", 1)}


def test_a_capital_l_is_read_as_a_signed_long() -> None:
    assert decode_table(fields.encode_long_string(b"\x01aL" + b"\xff" * 8), 0)[0] == {"a": Field("l", -1)}


def test_any_octet_but_zero_is_true() -> None:
    assert decode_table(fields.encode_long_string(b"\x01at\x02"), 0)[0] == {"a": Field("t", True)}


@pytest.mark.parametrize(
    "entries",
    [
        b"\x01aZ",
        b"\x01aU\x00\x01",
        b"\x01aS\x00\x00\x00\x09x",
        b"\x09a",
        b"\x01aI\x00",
        b"\x01aF\x00\x00\x00\x05",
        b"\x01aA\x00\x00\x00\x01I",
        b"\x01ad\x7f\xf8" + bytes(6),
        b"\x01af\x7f\x80\x00\x00",
    ],
)
def test_malformed_tables_are_refused(entries: bytes) -> None:
    with pytest.raises(FrameSyntaxError):
        decode_table(fields.encode_long_string(entries) + bytes(20), 0)


def test_a_nested_value_may_not_reach_past_its_own_table() -> None:
    inner = fields.encode_long_string(b"\x01aS\x00\x00\x00\x04")
    with pytest.raises(FrameSyntaxError):
        decode_table(fields.encode_long_string(b"\x01tF" + inner + b"\x01bV\x01cV"), 0)


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_a_header_bomb_is_refused_at_the_limit(letter: bytes) -> None:
    def nested(depth: int) -> bytes:
        data = b""
        for _ in range(depth - 1):
            data = (b"\x00F" if letter == b"F" else b"A") + fields.encode_long_string(data)
        return fields.encode_long_string(b"\x00A" + data[1:] if letter == b"A" and data else data)

    assert decode_table(nested(fields.NESTING_DEPTH_MAX), 0)
    for depth in (fields.NESTING_DEPTH_MAX + 1, 20_000):
        with pytest.raises(FrameSyntaxError):
            decode_table(nested(depth), 0)


def test_native_values_become_rabbitmqs_types() -> None:
    table = table_of({"t": False, "I": (1 << 31) - 1, "l": 1 << 31, "d": 1.0, "S": b"\xff", "V": None})
    table |= table_of({"A": [1], "F": {}, "T": datetime.fromtimestamp(7, UTC), "D": ScaledDecimal(2, 150)})
    assert {key: value.kind for key, value in table.items()} == {key: key for key in table}
    assert table["T"].value == 7


def test_plain_values() -> None:
    table = {"text": Field("S", b"\xff"), "raw": Field("x", b"\xff"), "price": field(ScaledDecimal(2, 150))}
    table |= table_of({"list": [{"a": 1}], "nothing": None})
    assert plain(table) == {
        "text": "\udcff",
        "raw": b"\xff",
        "price": decimal.Decimal("1.50"),
        "list": [{"a": 1}],
        "nothing": None,
    }


def test_a_value_without_a_field_type_is_our_own_mistake() -> None:
    with pytest.raises(TypeError):
        field(object())
    with pytest.raises(ValueError, match="64 bits"):
        field(1 << 63)
    with pytest.raises(ValueError, match="255"):
        fields.encode_short_string("x" * 256)


def test_every_kind_has_a_name_and_a_codec() -> None:
    assert set(fields.TYPE_NAMES) == set("tbBsuIildfDSATFVx")
    assert set(fields._ENCODERS) == set(fields.TYPE_NAMES)
