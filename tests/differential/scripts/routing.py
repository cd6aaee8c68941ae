"""Routing: the queues that a message reaches, for each exchange type."""

from __future__ import annotations

from typing import Any

from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script


def topic(c: Context, patterns: list[str], keys: list[str]) -> None:
    """One queue a pattern; each key's message is looked for in each queue."""
    ch = c.channel()
    for pattern in patterns:
        ch.queue(f"q {pattern}")
        ch.bind(f"q {pattern}", "amq.topic", pattern)
    for key in keys:
        ch.publish("amq.topic", key, key, mandatory=True)
    c.settle(*(f"q {pattern}" for pattern in patterns))
    for pattern in patterns:
        while ch.get(f"q {pattern}", no_ack=True).name == "basic.get-ok":
            pass


@script
def topic_words(c: Context) -> None:
    topic(c, ["a.b", "a.*", "*.b", "*", "a.*.c"], ["a.b", "a", "a.c", "b", "a.b.c", "a..c", ""])


@script
def topic_hash(c: Context) -> None:
    topic(c, ["#", "a.#", "#.z", "a.#.z", "#.#"], ["", "a", "z", "a.z", "a.b.c.z", "b.c"])


@script
def topic_hash_and_star(c: Context) -> None:
    topic(c, ["*.#", "#.*", "*.#.*", "#.*.#"], ["", "a", "a.b", "a.b.c"])


@script
def topic_empty_words(c: Context) -> None:
    topic(c, ["", ".", "*.*", "a.", ".a"], ["", ".", "a.", ".a", "a..b"])


@script
def topic_wildcards_inside_words(c: Context) -> None:
    """A star inside a word is a star."""
    topic(c, ["a*.b", "a#"], ["ax.b", "a*.b", "a#", "ab"])


@script
def topic_once_per_queue(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    for pattern in ("a.b", "a.*", "#"):
        ch.bind("q", "amq.topic", pattern)
    ch.publish("amq.topic", "a.b", "x")
    ch.passive("q")


@script
def direct_is_exact(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.direct", "a.*")
    ch.publish("amq.direct", "a.b", "no", mandatory=True)
    ch.publish("amq.direct", "a.*", "yes", mandatory=True)
    c.settle("q")
    ch.get("q", no_ack=True)


@script
def fanout_ignores_keys(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.fanout", "a")
    ch.bind("q", "amq.fanout", "b")
    ch.publish("amq.fanout", "c", "x")
    ch.passive("q")


def headers(c: Context, arguments: dict[str, Any], messages: list[dict[str, Any]]) -> None:
    ch = c.channel()
    ch.queue("q")
    if ch.bind("q", "amq.headers", "", arguments).name != "queue.bind-ok":
        return
    for number, message in enumerate(messages):
        ch.publish("amq.headers", "", str(number), mandatory=True, headers=message)
    ch.publish("amq.headers", "", "no headers", mandatory=True)
    c.settle("q")
    while ch.get("q", no_ack=True).name == "basic.get-ok":
        pass


MESSAGES: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"a": 1, "b": "two"},
    {"a": 2, "b": "two"},
    {"a": "1", "b": "two"},
    {"a": 1, "b": "two", "c": None},
    {"x-a": 1, "a": 1},
    {"x-a": 2, "a": 1},
    {"x-a": 1},
]


@script
def headers_all(c: Context) -> None:
    headers(c, {"x-match": "all", "a": 1, "b": "two"}, MESSAGES)


@script
def headers_any(c: Context) -> None:
    headers(c, {"x-match": "any", "a": 1, "b": "two"}, MESSAGES)


@script
def headers_default_is_all(c: Context) -> None:
    headers(c, {"a": 1, "b": "two"}, MESSAGES)


@script
def headers_all_ignores_x(c: Context) -> None:
    headers(c, {"x-match": "all", "a": 1, "x-a": 1}, MESSAGES)


@script
def headers_all_with_x(c: Context) -> None:
    headers(c, {"x-match": "all-with-x", "a": 1, "x-a": 1}, MESSAGES)


@script
def headers_any_with_x(c: Context) -> None:
    headers(c, {"x-match": "any-with-x", "b": "two", "x-a": 1}, MESSAGES)


@script
def headers_any_only_x(c: Context) -> None:
    headers(c, {"x-match": "any", "x-a": 1}, MESSAGES)


@script
def headers_void_means_present(c: Context) -> None:
    headers(c, {"x-match": "all", "a": None}, MESSAGES)


@script
def headers_no_arguments(c: Context) -> None:
    """No condition at all: everything matches."""
    headers(c, {}, MESSAGES[:2])


@script
def headers_any_without_conditions(c: Context) -> None:
    headers(c, {"x-match": "any"}, MESSAGES[:2])


@script
def headers_x_match_unknown(c: Context) -> None:
    headers(c, {"x-match": "some", "a": 1}, [])


@script
def headers_x_match_not_a_string(c: Context) -> None:
    headers(c, {"x-match": 1, "a": 1}, [])


@script
def headers_number_types(c: Context) -> None:
    """Equal numbers of different integer types match; numbers and strings do not."""
    values: list[Any] = [
        Typed("b", 5),
        Typed("B", 5),
        Typed("s", 5),
        Typed("u", 5),
        Typed("I", 5),
        Typed("i", 5),
        Typed("l", 5),
        5.0,
        Typed("f", 5.0),
        "5",
        Typed("T", 5),
        Typed("D", (0, 5)),
        b"5",
    ]
    headers(c, {"x-match": "all", "a": 5}, [{"a": value} for value in values])


@script
def headers_nested_values(c: Context) -> None:
    headers(
        c,
        {"x-match": "all", "a": {"k": [1, "two"]}},
        [{"a": {"k": [1, "two"]}}, {"a": {"k": [1]}}, {"a": [1, "two"]}],
    )


@script
def default_exchange_routes_by_queue_name(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", mandatory=True)
    ch.publish("", "other", "y", mandatory=True)
    c.settle("q")
    ch.get("q", no_ack=True)


@script
def alternate_exchange(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "direct", {"alternate-exchange": "amq.fanout"})
    ch.queue("q")
    ch.queue("rest")
    ch.bind("q", "e", "k")
    ch.bind("rest", "amq.fanout")
    ch.publish("e", "k", "routed", mandatory=True)
    ch.publish("e", "other", "unrouted", mandatory=True)
    c.settle("q", "rest")
    ch.get("q", no_ack=True)
    ch.get("rest", no_ack=True)


@script
def alternate_exchange_chain(c: Context) -> None:
    """An alternate may have an alternate; a circle ends."""
    ch = c.channel()
    ch.exchange("a", "direct", {"alternate-exchange": "b"})
    ch.exchange("b", "direct", {"alternate-exchange": "a"})
    ch.publish("a", "k", "nowhere", mandatory=True)
    c.settle()
    ch.queue("q")
    ch.bind("q", "b", "k")
    ch.publish("a", "k", "somewhere", mandatory=True)
    c.settle("q")
    ch.get("q", no_ack=True)


@script
def consistent_hash_weight_not_a_number(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-consistent-hash")
    ch.queue("q")
    ch.bind("q", "e", "heavy")


@script
def consistent_hash_weight_zero(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-consistent-hash")
    ch.queue("q")
    ch.bind("q", "e", "0")


@script
def consistent_hash_weight_negative(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-consistent-hash")
    ch.queue("q")
    ch.bind("q", "e", "-1")


@script
def consistent_hash_header_and_property(c: Context) -> None:
    c.channel().exchange("e", "x-consistent-hash", {"hash-header": "h", "hash-property": "message_id"})


@script
def consistent_hash_unknown_property(c: Context) -> None:
    c.channel().exchange("e", "x-consistent-hash", {"hash-property": "delivery_mode"})


@script
def consistent_hash_one_queue(c: Context) -> None:
    """With one queue everything goes there, whatever is hashed."""
    ch = c.channel()
    ch.queue("q")
    for number, arguments in enumerate(({}, {"hash-header": "h"}, {"hash-property": "message_id"})):
        ch.exchange(f"e{number}", "x-consistent-hash", arguments)
        ch.bind("q", f"e{number}", "1")
        ch.publish(f"e{number}", "k", "x", mandatory=True, headers={"h": "v"}, message_id="m")
        ch.publish(f"e{number}", "k", "without", mandatory=True)
    c.settle("q")
    ch.passive("q")


@script
def consistent_hash_spreads(c: Context) -> None:
    """Every message goes to exactly one queue."""
    ch = c.channel()
    ch.exchange("e", "x-consistent-hash")
    for name in ("q1", "q2", "q3"):
        ch.queue(name)
        ch.bind(name, "e", "10")
    for number in range(12):
        ch.publish("e", f"key {number}", "", mandatory=True)
    c.settle("q1", "q2", "q3")
    total = 0
    for name in ("q1", "q2", "q3"):
        answer = c.observe("queue.declare", queue=name, passive=True)
        total += 0 if answer is None else answer.message_count
    c.transcript.add(f"- {total} messages in all")


@script
def consistent_hash_no_queue(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-consistent-hash")
    ch.publish("e", "k", "x", mandatory=True)
    c.settle()


@script
def modulus_hash_spreads(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-modulus-hash")
    ch.publish("e", "none", "x", mandatory=True)
    c.settle()
    for name in ("q1", "q2"):
        ch.queue(name)
        ch.bind(name, "e", "")
    for number in range(10):
        ch.publish("e", f"key {number}", "", mandatory=True)
    c.settle("q1", "q2")
    total = 0
    for name in ("q1", "q2"):
        answer = c.observe("queue.declare", queue=name, passive=True)
        total += 0 if answer is None else answer.message_count
    c.transcript.add(f"- {total} messages in all")


@script
def random_exchange_one_queue(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "x-random")
    ch.publish("e", "k", "none", mandatory=True)
    c.settle()
    ch.queue("q")
    ch.bind("q", "e", "whatever")
    ch.publish("e", "k", "x", mandatory=True)
    c.settle("q")
    ch.get("q", no_ack=True)


@script
def recent_history(c: Context) -> None:
    """A new binding gets the last messages at once."""
    ch = c.channel()
    ch.exchange("e", "x-recent-history", {"x-recent-history-length": 2})
    for text in ("one", "two", "three"):
        ch.publish("e", "k", text)
    ch.publish("e", "k", "not stored", headers={"x-recent-history-no-store": True})
    ch.queue("q")
    ch.bind("q", "e")
    c.until_count("q", 2)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)
    ch.publish("e", "other", "four")
    c.settle("q")
    ch.get("q", no_ack=True)


@script
def recent_history_default_length(c: Context) -> None:
    """Twenty messages are kept if nothing else is said."""
    ch = c.channel()
    ch.exchange("e", "x-recent-history")
    for number in range(25):
        ch.publish("e", "k", str(number))
    ch.queue("q")
    ch.bind("q", "e")
    c.until_count("q", 20)
    ch.get("q", no_ack=True)


@script
def recent_history_wrong_length(c: Context) -> None:
    c.channel().exchange("e", "x-recent-history", {"x-recent-history-length": "many"})
    c.channel().exchange("e", "x-recent-history", {"x-recent-history-length": 0})
    c.channel().exchange("e", "x-recent-history", {"x-recent-history-length": -1})


@script
def recent_history_bound_exchange(c: Context) -> None:
    """An exchange cannot be given history."""
    ch = c.channel()
    ch.exchange("e", "x-recent-history")
    ch.bind_exchange("amq.fanout", "e")


@script
def bind_key_not_utf8(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.bind", queue="q", exchange="amq.topic", routing_key=b"\xff.*")


@script
def publish_key_not_utf8(c: Context) -> None:
    ch = c.channel()
    ch.publish("amq.direct", b"\xfe".decode("utf-8", "surrogateescape"), "x", mandatory=True)
    ch.read()
