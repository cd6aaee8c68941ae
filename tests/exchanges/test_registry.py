"""Exchange types by name, and the errors for unknown ones."""

from __future__ import annotations

import pytest

from mirrormq.errors import CommandInvalid
from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange_types import KINDS, create
from mirrormq.wire.fields import Field
from tests.exchanges.bindings import to_exchange

ARGUMENTS = {"x-federation-upstream": {"x-max-hops": Field("l", 1)}}
"""Arguments that a type needs."""


def first_of(count: int) -> int:
    return 0


def test_the_types_are_rabbitmqs_with_its_routing_plugins() -> None:
    assert set(KINDS) == {
        "direct",
        "fanout",
        "topic",
        "headers",
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
        "x-recent-history",
        "x-federation-upstream",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_keeps_its_bindings_in_order(kind: str) -> None:
    exchange = create(kind, "x", ARGUMENTS.get(kind, {}), first_of)
    assert (exchange.kind, exchange.name) == (kind, "x")
    bindings = [to_queue("q", "2"), to_exchange("q", "1"), to_queue("q", "1"), to_queue("p", "1")]
    assert [exchange.bind(binding) for binding in bindings + bindings] == [True] * 4 + [False] * 4
    assert exchange.bindings() == bindings
    assert exchange.is_unused is False
    assert [exchange.unbind(binding) for binding in bindings + bindings] == [True] * 4 + [False] * 4
    assert create(kind, "x", ARGUMENTS.get(kind, {}), first_of).is_unused
    assert exchange.bindings() == []
    assert list(exchange.route("1", {})) == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("nope", "unknown"),
        ("Direct", "unknown"),
        ("x-delayed-message", "unknown"),
        ("no'pe é", "unknown"),
        ("", "invalid"),
        ("queue", "invalid"),
    ],
)
def test_a_type_that_does_not_exist_is_refused(kind: str, wrong: str) -> None:
    with pytest.raises(CommandInvalid) as refusal:
        create(kind, "x", {}, first_of)
    assert (refusal.value.code, refusal.value.text) == (
        503,
        f"COMMAND_INVALID - {wrong} exchange type '{kind}'",
    )
