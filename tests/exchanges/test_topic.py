"""The topic trie against a model that tries every way a pattern can match."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.exchanges.binding import Binding, to_queue
from mirrormq.exchanges.topic import TopicExchange
from tests.exchanges.bindings import to_exchange

WORDS = st.sampled_from(["", "a", "b", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)


def model_matches(pattern: str, key: str) -> bool:
    def matches(pattern_words: list[str], words: list[str]) -> bool:
        if not pattern_words:
            return not words
        head, rest = pattern_words[0], pattern_words[1:]
        if head == "#":
            return any(matches(rest, words[taken:]) for taken in range(len(words) + 1))
        return bool(words) and head in ("*", words[0]) and matches(rest, words[1:])

    return matches(pattern.split(".") if pattern else [], key.split(".") if key else [])


def queues_of(exchange: TopicExchange, key: str) -> list[str]:
    return sorted(destination.name for destination in exchange.route(key, {}))


@given(st.lists(KEYS, unique=True, max_size=12), st.lists(KEYS, min_size=1, max_size=6))
def test_every_pattern_matches_as_the_model_says(patterns: list[str], keys: list[str]) -> None:
    exchange = TopicExchange("t")
    for pattern in patterns:
        assert exchange.bind(to_queue(f"<{pattern}>", pattern))
    for key in keys:
        expected = sorted(f"<{pattern}>" for pattern in patterns if model_matches(pattern, key))
        assert queues_of(exchange, key) == expected


@given(
    st.lists(
        st.tuples(st.booleans(), KEYS, st.sampled_from("pqr"), st.sampled_from([b"x", b"y"])), max_size=40
    ),
    KEYS,
)
def test_binding_and_unbinding_in_any_order_leaves_what_is_bound(
    steps: list[tuple[bool, str, str, bytes]], key: str
) -> None:
    exchange = TopicExchange("t")
    bound: dict[Binding, None] = {}
    for add, pattern, queue, arguments in steps:
        binding = to_queue(queue, pattern, arguments)
        if add:
            assert exchange.bind(binding) is (binding not in bound)
            bound[binding] = None
        else:
            assert exchange.unbind(binding) is (binding in bound)
            bound.pop(binding, None)
    assert exchange.bindings() == list(bound)
    expected = {each.destination for each in bound if model_matches(each.routing_key, key)}
    assert set(exchange.route(key, {})) == expected
    for binding in list(bound):
        exchange.unbind(binding)
    assert exchange.is_unused
    assert exchange.node_count() == 0


@pytest.mark.parametrize(
    ("key", "patterns"),
    [
        ("", ["", "#", "#.#"]),
        (".", ["#", "*.*", ".", "#.#", "*.#", "#.*", "*.", "#.*.#"]),
        ("a", ["#", "*", "#.#", "*.#", "#.*", "#.a.#", "#.#.a", "#.*.#"]),
        ("a.", ["#", "*.*", "a.", "#.#", "*.#", "#.*", "#.a.#", "*.", "#.*.#"]),
        ("a.b", ["#", "*.*", "#.#", "*.#", "#.*", "a.#.b", "#.a.#", "#.*.#"]),
        ("a..b", ["#", "#.#", "*.#", "#.*", "a.#.b", "#.a.#", "a..b", "#.*.#"]),
        ("#", ["#", "*", "#.#", "*.#", "#.*", "#.*.#"]),
        ("**", ["#", "*", "#.#", "*.#", "#.*", "#.*.#", "**"]),
        ("a*", ["#", "*", "#.#", "*.#", "#.*", "#.*.#", "a*"]),
    ],
)
def test_keys_match_the_patterns_that_rabbitmq_3_10_matched(key: str, patterns: list[str]) -> None:
    exchange = TopicExchange("t")
    everything = ["", "#", "*", "*.*", ".", "a.", "#.#", "*.#", "#.*", "a.#.b", "#.a.#", "a..b", "*."]
    for pattern in [*everything, "#.#.a", "#.*.#", "**", "a*"]:
        exchange.bind(to_queue(pattern, pattern))
    assert queues_of(exchange, key) == sorted(patterns)


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    exchange = TopicExchange("t")
    exchange.bind(to_queue("same", "k"))
    exchange.bind(to_exchange("same", "k"))
    exchange.unbind(to_queue("same", "k"))
    assert [destination.kind for destination in exchange.route("k", {})] == ["exchange"]


def calls_while_routing(exchange: TopicExchange, key: str) -> int:
    """Count the Python and C calls of one `route`: a measure of work that no other load on the machine
    changes."""
    count = 0

    def counting(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # a collection would call the callbacks that Hypothesis has registered
    sys.setprofile(counting)
    try:
        exchange.route(key, {})
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_a_hundred_thousand_bindings_cost_a_key_no_more_than_ten() -> None:
    small, large = TopicExchange("small"), TopicExchange("large")
    bindings = [to_queue(f"q{number % 100}", f"news.{number}.*.#") for number in range(100_000)]
    for binding in bindings[:10]:
        small.bind(binding)
    for binding in bindings:
        large.bind(binding)
    assert queues_of(large, "news.5.today.at.noon") == ["q5"]
    assert calls_while_routing(large, "news.5.today.at.noon") == calls_while_routing(
        small, "news.5.today.at.noon"
    )
    for binding in bindings:
        assert large.unbind(binding)
    assert large.node_count() == 0


def test_many_wildcards_on_a_long_key_do_not_multiply() -> None:
    exchange = TopicExchange("t")
    exchange.bind(to_queue("q", ".".join(["#", "a"] * 30)))
    key = ".".join(["a"] * 100)
    assert queues_of(exchange, key) == ["q"]
    assert calls_while_routing(exchange, key) < 100 * 61 * 10
