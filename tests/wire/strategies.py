"""Hypothesis strategies: any field, any table, any properties, any method."""

from __future__ import annotations

from typing import Any, get_type_hints

from hypothesis import strategies as st

from mirrormq.wire.fields import Field, ScaledDecimal
from mirrormq.wire.methods import METHOD_IDS
from mirrormq.wire.properties import PROPERTY_TYPES, BasicProperties

short_strings = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
method_strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=63)
"""UTF-8, at most 252 octets: RabbitMQ refuses anything else in a method but basic.publish."""
names = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    if signed:
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.integers(0, (1 << bits) - 1)


scalar_fields = st.one_of(
    st.builds(Field, st.just("t"), st.booleans()),
    st.builds(Field, st.just("b"), integers(8, True)),
    st.builds(Field, st.just("B"), integers(8, False)),
    st.builds(Field, st.just("s"), integers(16, True)),
    st.builds(Field, st.just("u"), integers(16, False)),
    st.builds(Field, st.just("I"), integers(32, True)),
    st.builds(Field, st.just("i"), integers(32, False)),
    st.builds(Field, st.just("l"), integers(64, True)),
    st.builds(Field, st.just("T"), integers(64, False)),
    st.builds(Field, st.just("d"), st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(Field, st.just("f"), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    st.builds(Field, st.just("D"), st.builds(ScaledDecimal, integers(8, False), integers(32, False))),
    st.builds(Field, st.just("S"), st.binary(max_size=40)),
    st.builds(Field, st.just("x"), st.binary(max_size=40)),
    st.just(Field("V", None)),
)
fields = st.recursive(
    scalar_fields,
    lambda inner: st.one_of(
        st.builds(Field, st.just("A"), st.lists(inner, max_size=4)),
        st.builds(Field, st.just("F"), st.dictionaries(names, inner, max_size=4)),
    ),
    max_leaves=12,
)
tables = st.dictionaries(names, fields, max_size=6)

_PROPERTY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "shortstr": short_strings,
    "table": tables,
    "octet": integers(8, False),
    "timestamp": integers(64, False),
}
properties = st.builds(
    BasicProperties,
    **{name: st.none() | _PROPERTY_VALUES[wire_type] for name, wire_type in PROPERTY_TYPES.items()},
)


def _method_fields(tuple_type: type) -> st.SearchStrategy[Any]:
    """Draw the fields of a method. Integers fit the narrowest integer field of any method (an octet)."""
    values: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: integers(8, False),
        str: method_strings,
        bytes: st.binary(max_size=300),
    }
    hints = get_type_hints(tuple_type)
    return st.builds(tuple_type, **{name: values.get(hint, tables) for name, hint in hints.items()})


methods = st.sampled_from(sorted(METHOD_IDS, key=lambda tuple_type: tuple_type.__name__)).flatmap(
    _method_fields
)
