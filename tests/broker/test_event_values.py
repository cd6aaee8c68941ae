"""Event facts: they take the forms that RabbitMQ's event exchange gives to Erlang terms."""

from __future__ import annotations

import pytest

from mirrormq.events import event_values
from mirrormq.events.parameter_events import parameter_set
from mirrormq.wire.fields import Field, ScaledDecimal


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (Field("S", b'te"xt'), 'longstr,<<"te\\"xt">>'),
        (Field("S", b""), "longstr,<<>>"),
        (Field("x", b"\xff\x01"), "binary,<<255,1>>"),
        (Field("d", 1e20), "double,1.0e20"),
        (Field("V", None), "void,undefined"),
        (Field("D", ScaledDecimal(2, 125)), "decimal,{2,125}"),
        (Field("A", [Field("I", 1), Field("S", b"a")]), 'array,[{signedint,1},{longstr,<<"a">>}]'),
        (Field("F", {"a": Field("t", True)}), 'table,[{<<"a">>,bool,true}]'),
        (Field("F", {}), "table,[]"),
    ],
)
def test_arguments_are_printed_as_erlang_terms(field: Field, shown: str) -> None:
    assert event_values.printed({"k": field}) == [f'{{<<"k">>,{shown}}}']


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (True, Field("t", True)),
        (5, Field("l", 5)),
        (1 << 64, Field("l", 0)),
        (2.5, Field("f", 2.5)),
        (1e300, Field("d", 1e300)),
        (None, Field("S", b"null")),
        ({}, Field("A", [])),
        ({"a": ["x"]}, Field("F", {"a": Field("A", [Field("S", b"x")])})),
        ({"k" * 300: 1}, Field("F", {"k" * 255: Field("l", 1)})),
    ],
)
def test_facts_have_rabbitmqs_types(value: object, field: Field) -> None:
    assert event_values.header(value) == field


@pytest.mark.parametrize(
    ("host", "shown"),
    [("10.0.0.7", "{10,0,0,7}"), ("::1", "{0,0,0,0,0,0,0,1}"), ("a name", "a name"), ("", "")],
)
def test_addresses_are_tuples(host: str, shown: str) -> None:
    assert event_values.printed_address(host) == shown


def test_no_event_shows_the_password_of_a_uri() -> None:
    value = {
        "uri": ["amqp://user:secret@h", "amqp://h"],
        "src-uri": "amqps://u:secret@h",
        "prefetch-count": 5,
    }
    _, facts = parameter_set("/", "federation-upstream", "u", value, "guest")
    assert facts["value"] == {
        "uri": ["amqp://user:******@h", "amqp://h"],
        "src-uri": "amqps://u:******@h",
        "prefetch-count": 5,
    }
