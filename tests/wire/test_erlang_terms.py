"""Erlang's notation, as RabbitMQ 3.10.8 was seen to quote JSON values in its answers."""

from __future__ import annotations

import pytest

from mirrormq.wire.erlang_terms import properties, term


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-1, "-1"),
        (1.5, "1.5"),
        ([["a"], 1.0, 1e20, False], '[[<<"a">>],1.0,1.0e20,false]'),
        (None, "null"),
        (True, "true"),
        ([], "[]"),
        ([1, 2], "[1,2]"),
        ([104, 105], '"hi"'),
        ({"a": 1}, '#{<<"a">> => 1}'),
        ("", "<<>>"),
        ("x", '<<"x">>'),
        ('é\n"z', '<<"é\\n\\"z">>'),
        ('é\n"€', "<<195,169,10,34,226,130,172>>"),
    ],
)
def test_a_value_is_quoted_as_rabbitmq_quotes_it(value: object, expected: str) -> None:
    assert term(value) == expected


def test_a_long_list_of_pairs_is_broken_after_each_pair() -> None:
    found = properties({"c" * 21: 3, "a" * 37: 1, "b" * 50: 2})
    assert found == f'[{{<<"{"a" * 37}">>,1}},\n {{<<"{"b" * 50}">>,2}},\n {{<<"{"c" * 21}">>,3}}]'
