"""x-recent-history: who binds late still gets the last messages."""

from __future__ import annotations

import pytest

from mirrormq.errors import PreconditionFailed
from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange import Exchange
from mirrormq.exchanges.exchange_types import create
from mirrormq.exchanges.recent_history import LENGTH_DEFAULT
from mirrormq.wire.fields import Field, table_of
from tests.exchanges.bindings import to_exchange


def history(arguments: dict[str, object]) -> Exchange:
    return create("x-recent-history", "rh", table_of(arguments), lambda count: 0)


def test_the_last_messages_are_handed_to_a_new_queue_oldest_first() -> None:
    exchange = history({"x-recent-history-length": 3})
    for message in "abcde":
        exchange.on_publish(message, {})
    assert exchange.on_bind(to_queue("q")) == ["c", "d", "e"]
    assert exchange.on_bind(to_exchange("x")) == ["e", "d", "c"]


def test_twenty_are_kept_unless_the_arguments_say_otherwise() -> None:
    exchange = history({})
    for number in range(50):
        exchange.on_publish(number, {})
    assert exchange.on_bind(to_queue("q")) == list(range(50 - LENGTH_DEFAULT, 50))


def test_a_message_may_ask_not_to_be_kept() -> None:
    exchange = history({})
    exchange.on_publish("kept", table_of({"x-recent-history-no-store": False}))
    exchange.on_publish("also kept", table_of({"x-recent-history-no-store": "true"}))
    exchange.on_publish("not kept", table_of({"x-recent-history-no-store": True}))
    assert exchange.on_bind(to_queue("q")) == ["kept", "also kept"]


def test_a_recent_history_exchange_is_a_fanout() -> None:
    exchange = history({})
    exchange.bind(to_queue("a", "x"))
    exchange.bind(to_queue("b", "y"))
    assert [destination.name for destination in exchange.route("z", {})] == ["a", "b"]
    assert exchange.keeps_messages and not exchange.cacheable


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (Field("I", 0), "0"),
        (Field("I", -4), "-4"),
        (Field("S", b"a"), '<<"a">>'),
        (Field("t", True), "true"),
        (Field("i", 5), "5"),
        (Field("d", 2.5), "2.5"),
    ],
)
def test_a_wrong_length_is_refused(length: Field, shown: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        history({"x-recent-history-length": length})
    explanation = f"Invalid argument {shown}, 'x-recent-history-length' must be a positive integer"
    assert refusal.value.text == f"PRECONDITION_FAILED - {explanation}"
