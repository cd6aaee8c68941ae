"""Headers exchange: truth tables taken from RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange_types import validate_binding
from mirrormq.exchanges.headers import HeaderPattern, HeadersExchange
from mirrormq.wire.fields import VOID, Field, ScaledDecimal, Table, table_of
from tests.exchanges.bindings import encode_arguments


def matches(arguments: Table, headers: Table) -> bool:
    exchange = HeadersExchange("h")
    exchange.bind(to_queue("q", "", encode_arguments(arguments)))
    return bool(list(exchange.route("any key", headers)))


Values = dict[str, object]

NOTHING: Values = {}
A: Values = {"a": 1}
B: Values = {"b": 2}
AB: Values = {"a": 1, "b": 2}
WRONG: Values = {"a": 2, "b": 1}
X: Values = {"x-a": 3}
AX: Values = {"a": 1, "x-a": 3}
MESSAGES = {"nothing": NOTHING, "a": A, "b": B, "ab": AB, "wrong": WRONG, "x": X, "ax": AX}


@pytest.mark.parametrize(
    ("match", "wanted", "expected"),
    [
        (None, NOTHING, "nothing a b ab wrong x ax"),
        (None, AB, "ab"),
        (None, A, "a ab ax"),
        (None, X, "nothing a b ab wrong x ax"),
        ("all", NOTHING, "nothing a b ab wrong x ax"),
        ("all", AB, "ab"),
        ("all", AX, "a ab ax"),
        ("any", NOTHING, ""),
        ("any", AB, "a b ab ax"),
        ("any", X, ""),
        ("any", AX, "a ab ax"),
        ("all-with-x", NOTHING, "nothing a b ab wrong x ax"),
        ("all-with-x", X, "x ax"),
        ("all-with-x", AX, "ax"),
        ("any-with-x", NOTHING, ""),
        ("any-with-x", X, "x ax"),
        ("any-with-x", AX, "a ab x ax"),
        ("all", {"a": None}, "a ab wrong ax"),
        ("any", {"a": None, "b": 2}, "a b ab wrong ax"),
    ],
)
def test_truth_table(match: str | None, wanted: Values, expected: str) -> None:
    arguments = table_of(wanted if match is None else {**wanted, "x-match": match})
    matched = [name for name, headers in MESSAGES.items() if matches(arguments, table_of(headers))]
    assert matched == expected.split()


SAME = [
    [Field(kind, 1) for kind in "bBsuIilT"] + [Field("d", 1.0), Field("f", 1.0)],
    [Field("I", 0), Field("d", 0.0)],
    [Field("S", b"1"), Field("x", b"1")],
    [Field("t", True)],
    [Field("t", False)],
    [Field("S", b"true")],
    [Field("S", b"")],
    [Field("D", ScaledDecimal(0, 1))],
    [Field("D", ScaledDecimal(1, 10))],
    [Field("A", []), Field("F", {})],
    [Field("A", [Field("I", 1)])],
    [Field("A", [Field("l", 1)])],
    [Field("A", [Field("d", 1.0)])],
    [Field("F", {"a": Field("I", 1)})],
    [Field("F", {"a": Field("l", 1)})],
    [Field("F", {"a": Field("I", 1), "b": VOID})],
    [Field("F", {"b": VOID, "a": Field("I", 1)})],
]
"""Fields in one list are equal to each other, and to nothing in another list."""


def test_values_of_different_types_are_equal_when_rabbitmq_says_so() -> None:
    fields = [(group, field) for group, same in enumerate(SAME) for field in same]
    for group, wanted in fields:
        for other_group, offered in fields:
            assert matches({"k": wanted}, {"k": offered}) is (group == other_group), (wanted, offered)


def test_a_void_header_is_present_but_equals_no_value() -> None:
    assert matches({"k": VOID}, {"k": VOID})
    assert not any(matches({"k": field}, {"k": VOID}) for same in SAME for field in same)


def test_the_order_of_arguments_does_not_make_another_binding() -> None:
    exchange = HeadersExchange("h")
    assert exchange.bind(to_queue("q", "", encode_arguments(table_of({"a": 1, "b": 2}))))
    assert not exchange.bind(to_queue("q", "", encode_arguments(table_of({"b": 2, "a": 1}))))
    assert exchange.unbind(to_queue("q", "", encode_arguments(table_of({"b": 2, "a": 1}))))
    assert list(exchange.route("", table_of({"a": 1, "b": 2}))) == []


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (Field("S", b"foo"), 'value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (Field("S", b'f"o\\'), 'value <<"f\\"o\\\\">>; expected all, any, all-with-x, or any-with-x'),
        (Field("S", b""), "value <<>>; expected all, any, all-with-x, or any-with-x"),
        (Field("S", b"ab\1c"), "value <<97,98,1,99>>; expected all, any, all-with-x, or any-with-x"),
        (Field("I", 5), "type signedint (value 5); expected longstr"),
        (Field("t", True), "type bool (value true); expected longstr"),
        (Field("d", 1e16), "type double (value 1.0e16); expected longstr"),
        (Field("D", ScaledDecimal(1, 10)), "type decimal (value {1,10}); expected longstr"),
        (VOID, "type void (value undefined); expected longstr"),
        (
            Field("A", [Field("S", b"a"), Field("I", 1)]),
            'type array (value [{longstr,<<"a">>},{signedint,1}]); expected longstr',
        ),
        (Field("F", {"a": Field("I", 1)}), 'type table (value [{<<"a">>,signedint,1}]); expected longstr'),
    ],
)
def test_a_wrong_x_match_is_refused_in_rabbitmqs_words(value: Field, complaint: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        validate_binding("headers", "", {"x-match": value})
    assert refusal.value.text == f"PRECONDITION_FAILED - Invalid x-match field {complaint}"


@pytest.mark.parametrize("match", ["all", "any", "all-with-x", "any-with-x"])
def test_the_four_kinds_and_none_are_accepted(match: str) -> None:
    validate_binding("headers", "", table_of({"x-match": match}))
    validate_binding("headers", "", {})
    validate_binding("topic", "", table_of({"x-match": "whatever"}))


VALUES = st.sampled_from([1, 2, b"1", None, True])
ARGUMENTS = st.tuples(
    st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "x-d"]), VALUES, max_size=3),
)


@given(
    st.lists(ARGUMENTS, max_size=12),
    st.sets(st.integers(0, 11)),
    st.dictionaries(st.sampled_from(["a", "b", "c", "x-d"]), VALUES),
)
def test_the_index_finds_exactly_the_bindings_that_match_alone(
    bound: list[tuple[str | None, Values]], removed: set[int], message: Values
) -> None:
    tables = [table_of(values if match is None else {**values, "x-match": match}) for match, values in bound]
    bindings = [to_queue(f"q{n}", "", encode_arguments(table)) for n, table in enumerate(tables)]
    exchange, headers = HeadersExchange("h"), table_of(message)
    for binding in bindings:
        exchange.bind(binding)
    for number in removed & set(range(len(bindings))):
        exchange.unbind(bindings[number])
    expected = {f"q{n}" for n, table in enumerate(tables) if n not in removed and matches(table, headers)}
    assert {destination.name for destination in exchange.route("", headers)} == expected


def test_a_message_is_compared_only_with_bindings_that_share_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange = HeadersExchange("h")
    for number in range(1000):
        arguments = table_of({"kind": number % 5, "tenant": f"tenant-{number}"})
        exchange.bind(to_queue(f"q{number}", "", encode_arguments(arguments)))
    compared: list[HeaderPattern] = []
    whole = HeaderPattern.matches

    def matches_counted(pattern: HeaderPattern, headers: Table) -> bool:
        compared.append(pattern)
        return whole(pattern, headers)

    monkeypatch.setattr(HeaderPattern, "matches", matches_counted)
    message = table_of({"kind": 2, "tenant": "tenant-777", "other": 1})
    assert [destination.name for destination in exchange.route("", message)] == ["q777"]
    assert len(compared) <= 3
