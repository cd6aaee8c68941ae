"""Exchanges that pick one destination: shares, stability, and how little moves."""

from __future__ import annotations

from collections import Counter

import pytest

from mirrormq.errors import AmqpError, InternalError, PreconditionFailed
from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange import Exchange, Properties
from mirrormq.exchanges.exchange_types import create, validate_binding
from mirrormq.wire.fields import Table, table_of

KEYS = [f"order-{number}" for number in range(8000)]


def first_of(count: int) -> int:
    return 0


def consistent(weights: dict[str, int], arguments: Table | None = None) -> Exchange:
    exchange = create("x-consistent-hash", "h", arguments or {}, first_of)
    for queue, weight in weights.items():
        exchange.bind(to_queue(queue, str(weight)))
    return exchange


def place(
    exchange: Exchange, key: str, headers: Table | None = None, properties: Properties | None = None
) -> str:
    (destination,) = exchange.route(key, headers or {}, properties or {})
    return destination.name


def test_each_queue_gets_its_share_by_weight() -> None:
    weights = {"one": 1, "two": 2, "five": 5}
    exchange = consistent(weights)
    shares = Counter(place(exchange, key) for key in KEYS)
    for queue, weight in weights.items():
        assert shares[queue] == pytest.approx(len(KEYS) * weight / 8, rel=0.1)


def test_a_new_queue_takes_its_share_and_nothing_else_moves() -> None:
    exchange = consistent({"a": 1, "b": 1, "c": 1})
    before = {key: place(exchange, key) for key in KEYS}
    exchange.bind(to_queue("d", "1"))
    after = {key: place(exchange, key) for key in KEYS}
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {"d"}
    assert len(moved) == pytest.approx(len(KEYS) / 4, rel=0.1)


def test_a_removed_queue_leaves_its_share_and_nothing_else_moves() -> None:
    exchange = consistent({"a": 1, "b": 3, "c": 1})
    before = {key: place(exchange, key) for key in KEYS}
    exchange.unbind(to_queue("b", "3"))
    assert all(place(exchange, key) == before[key] for key in KEYS if before[key] != "b")
    assert {place(exchange, key) for key in KEYS} == {"a", "c"}


def test_the_place_depends_on_what_is_bound_and_not_on_the_order() -> None:
    one, other = consistent({"a": 2, "b": 1, "c": 4}), consistent({"c": 4, "z": 9, "a": 2, "b": 1})
    other.unbind(to_queue("z", "9"))
    assert [place(one, key) for key in KEYS[:500]] == [place(other, key) for key in KEYS[:500]]


def test_of_two_bindings_to_one_queue_the_older_gives_the_weight() -> None:
    exchange = consistent({"a": 1, "b": 1})
    exchange.bind(to_queue("a", "8"))
    assert Counter(place(exchange, key) for key in KEYS)["a"] == pytest.approx(len(KEYS) / 2, rel=0.1)
    exchange.unbind(to_queue("a", "1"))
    assert Counter(place(exchange, key) for key in KEYS)["a"] == pytest.approx(len(KEYS) * 8 / 9, rel=0.1)
    exchange.unbind(to_queue("a", "8"))
    exchange.unbind(to_queue("b", "1"))
    assert list(exchange.route("k", {})) == []


def test_a_header_is_hashed_when_the_arguments_say_so() -> None:
    weights = dict.fromkeys("abcdefgh", 1)
    exchange = consistent(weights, table_of({"hash-header": "customer"}))
    assert exchange.needs_headers and not exchange.cacheable
    assert len({place(exchange, key, table_of({"customer": "me"})) for key in KEYS[:50]}) == 1
    assert len({place(exchange, "k", table_of({"customer": key})) for key in KEYS[:200]}) == 8
    assert len({place(exchange, "k", table_of({"customer": number})) for number in range(200)}) == 8
    assert len({place(exchange, key) for key in KEYS[:50]}) == 1


@pytest.mark.parametrize("name", ["correlation_id", "message_id", "timestamp"])
def test_a_property_is_hashed_when_the_arguments_say_so(name: str) -> None:
    exchange = consistent(dict.fromkeys("abcd", 1), table_of({"hash-property": name}))
    assert exchange.needs_properties and not exchange.cacheable
    assert len({place(exchange, key, properties={name: 17}) for key in KEYS[:50]}) == 1
    assert len({place(exchange, "k", properties={name: number}) for number in range(100)}) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"hash-header": 1}, InternalError, "INTERNAL_ERROR"),
        ({"hash-property": 5}, InternalError, "INTERNAL_ERROR"),
        (
            {"hash-header": "a", "hash-property": "message_id"},
            PreconditionFailed,
            "PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "foo"}, PreconditionFailed, "PRECONDITION_FAILED - Unsupported property: foo"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], error: type[AmqpError], text: str) -> None:
    with pytest.raises(error) as refusal:
        create("x-consistent-hash", "h", table_of(arguments), first_of)
    assert refusal.value.text == text


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("a", 'must be an integer: <<"a">>'),
        ("", "must be an integer: <<>>"),
        (" 3", 'must be an integer: <<" 3">>'),
        ("1.5", 'must be an integer: <<"1.5">>'),
        ("1_0", 'must be an integer: <<"1_0">>'),
        ("a\nb\1", "must be an integer: <<97,10,98,1>>"),
        ("+", 'must be an integer: <<"+">>'),
        ("0", "must be greater than 0"),
        ("-1", "must be greater than 0"),
    ],
)
def test_a_weight_is_a_positive_integer(key: str, complaint: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        validate_binding("x-consistent-hash", key, {})
    assert refusal.value.text == f"PRECONDITION_FAILED - The binding key {complaint}"


@pytest.mark.parametrize("key", ["1", "+3", "007", "9" * 255])
def test_any_positive_integer_will_do(key: str) -> None:
    validate_binding("x-consistent-hash", key, {})
    assert place(consistent({"q": int(key)}), "k") == "q"


def test_modulus_hash_spreads_keys_over_bindings_and_keeps_each_in_its_place() -> None:
    def made(queues: str) -> Exchange:
        exchange = create("x-modulus-hash", "m", {}, first_of)
        for queue in queues:
            exchange.bind(to_queue(queue, "ignored"))
        return exchange

    one, other = made("abcd"), made("dbca")
    shares = Counter(place(one, key) for key in KEYS)
    assert all(share == pytest.approx(len(KEYS) / 4, rel=0.1) for share in shares.values())
    assert [place(one, key) for key in KEYS] == [place(other, key) for key in KEYS]
    assert list(made("").route("k", {})) == []


def test_random_asks_the_dice_and_only_them() -> None:
    asked = []

    def choose(count: int) -> int:
        asked.append(count)
        return len(asked) % count

    exchange = create("x-random", "r", {}, choose)
    assert list(exchange.route("k", {})) == []
    for queue in "abc":
        exchange.bind(to_queue(queue))
    assert [place(exchange, "same key") for _ in range(4)] == ["b", "c", "a", "b"]
    exchange.unbind(to_queue("b"))
    assert {place(exchange, "same key") for _ in range(4)} == {"a", "c"}
    assert asked == [3, 3, 3, 3, 2, 2, 2, 2]
    assert not exchange.cacheable
