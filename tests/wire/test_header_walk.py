"""A table that the walk vouches for can be decoded, and has none of the marked headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.errors import FrameSyntaxError
from mirrormq.wire.fields import Field, Table, decode_table, encode_table, table_of
from mirrormq.wire.header_walk import MARKED, needs_decoding
from tests.wire.strategies import tables

MARKED_TABLES: list[Table] = [
    {"CC": Field("A", [])},
    {"a": Field("I", 1), "BCC": Field("S", b"x")},
    {"x-producer": Field("S", b"me"), "x-publish-id": Field("l", 1)},
]
PLAIN = {"a": 1, "text": "x" * 300, "flag": True, "nothing": None, "cc": "CC", "x-producers": "x-producer"}


@pytest.mark.parametrize("table", MARKED_TABLES)
def test_marked_headers_are_found(table: Table) -> None:
    assert needs_decoding(encode_table(table), 0)


def test_names_in_values_are_not_marked() -> None:
    assert not needs_decoding(b"before" + encode_table(table_of(PLAIN)) + b"after", 6)
    assert not needs_decoding(encode_table({}), 0)


@given(tables, st.data())
def test_the_walk_vouches_only_for_what_can_be_decoded(table: Table, data: st.DataObject) -> None:
    octets = bytearray(encode_table(table))
    for _ in range(data.draw(st.integers(0, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(octets)
    if not needs_decoding(payload, 0):
        try:
            decoded, end = decode_table(payload, 0)
        except FrameSyntaxError:
            pytest.fail("the decoder refuses what the walk vouched for")
        assert end <= len(payload)
        assert not {name.encode("utf-8", "surrogateescape") for name in decoded} & MARKED
